"""Where a pipeline cuts a model whose layers do not divide by the chunks of its stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.specs.workload import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from perfmodel.units import Count


@dataclass(frozen=True, slots=True)
class Cut:
    """All chunks have as many layers, but for the first and the last."""

    fullness: Count = 1
    """Layers of the fullest stage over those of an average one."""
    spare: Count = 0
    """Layers that the last stage has fewer than the fullest."""
    chunk: Count = 0
    """Layers of a full chunk; 0 where it does not matter which layers a stage has."""
    shift: Count = 0
    """Layers that the first chunk has fewer than a full one."""
    sizes: tuple[int, ...] = ()
    """Layers of each chunk along the model, where they are told one by one."""

    def chunk_of(self, layers: Count) -> Count:
        """Which chunks along the model layers, counted from 0, are in."""
        if self.sizes:
            chunks: Count = np.repeat(np.arange(len(self.sizes)), self.sizes)[np.asarray(layers, dtype=int)]
            return chunks
        return (np.asarray(layers) + self.shift) // self.chunk

    def stage_of(self, layers: Count, stages: Count) -> Count:
        """Which stages they are on."""
        return self.chunk_of(layers) % stages

    def fewer(self, stage: Count, stages: Count) -> Count:
        """Layers that a stage has fewer than the fullest."""
        if self.sizes:
            held = _held(self.sizes, int(stages))
            fewer: Count = held.max() - held[np.asarray(stage, dtype=int)]
            return fewer
        first, last = np.asarray(stage) == 0, np.asarray(stage) == stages - 1
        return np.where(last, self.spare, 0) + np.where(first, self.shift, 0)

    def shares(self, positions: int, chunks: int, spare: float) -> list[float]:
        """Of the body of the fullest stage, what each position along the model has.

        Args:
            positions: all chunks, and those that passes without gradient take again.
            chunks: of a stage.
            spare: share of the body of a stage that the last position lacks, where chunks are not told one by one.
        """
        if self.sizes:
            most = _held(self.sizes, positions // chunks).max()
            return [size / most for size in self.sizes]
        return [*[1 / chunks] * (positions - 1), 1 / chunks - spare]


def _held(sizes: tuple[int, ...], stages: int) -> NDArray[np.int64]:
    """Layers of each stage, whose chunks are dealt in turn."""
    held: NDArray[np.int64] = np.reshape(np.array(sizes, dtype=np.int64), (-1, stages)).sum(axis=0)
    return held


def told(stage_layers: str) -> tuple[int, ...]:
    """Layers of each chunk along the model, where a strategy names them; else nothing.

    >>> told("19-21-21-19"), told("last-fewer")
    ((19, 21, 21, 19), ())
    """
    words = stage_layers.split("-")
    return tuple(map(int, words)) if all(word.isdigit() for word in words) else ()


TURNING = ("zero-bubble-v", "dual-pipe", "3f1b")
"""Schedules whose chunks do not follow one another from stage to stage, once each."""

EVEN = Cut()
"""Stages that are all alike."""


def cut(layers: int, strategy: Any) -> Cut:
    """Chunks as full as the fullest must be; what lacks, the ends have fewer.

    With `last-fewer` the last stage, which has the head, takes what is left; with `ends-fewer` embedding and head count
    as layers: the first stage has as many fewer as the last, or one less.
    """
    if sizes := told(strategy.stage_layers):
        held = _held(sizes, int(strategy.pp))
        most = int(held.max())
        return Cut(most * len(held) / layers, most - int(held[-1]), most, most - int(held[0]), sizes)
    chunks = strategy.pp * strategy.vpp
    chunk = -(-layers // chunks)
    lacking = chunk * chunks - layers
    spare = lacking if strategy.stage_layers == "last-fewer" else -(-lacking // 2)
    return Cut(chunk * chunks / layers, spare, chunk, lacking - spare)


def cut_of(model: object, strategy: Any) -> Cut:
    """Of a model that a pipeline may cut, else one piece; degrees may be columns."""
    return cut(model.layers, strategy) if isinstance(model, Transformer) and not model.decoder_layers else EVEN


def cut_faults(layers: int, strategy: Any) -> Iterator[tuple[Any, Callable[[], str]]]:
    """Where the ends cannot have as many layers fewer, and what to tell of it."""
    if sizes := told(strategy.stage_layers):
        yield from _told_faults(layers, sizes, strategy)
        return
    made = cut(layers, strategy)
    yield (
        np.asarray(np.maximum(made.spare, made.shift) > made.chunk),
        lambda: (
            f"{strategy.pp} x {strategy.vpp} chunks of {made.chunk} layers are {made.spare + made.shift} more than the {layers}"
            " of the model, which its ends cannot lack; take fewer chunks, or leave stage_layers at equal"
        ),
    )


def _told_faults(layers: int, sizes: tuple[int, ...], strategy: Any) -> Iterator[tuple[Any, Callable[[], str]]]:
    """Chunks or layers that are not those of the model, and orders of passes that deal chunks in another way."""
    s, total = strategy, sum(sizes)
    chunks = s.pp * s.vpp
    yield (
        chunks != len(sizes),
        lambda: (
            f"{s.stage_layers} names {len(sizes)} chunks, but pp {s.pp} x vpp {s.vpp} are {chunks}; name one for each"
        ),
    )
    yield total != layers, lambda: f"{s.stage_layers} are {total} layers, but the model has {layers}; make them add up"
    yield (
        s.schedule in TURNING,
        lambda: f"{s.schedule} has chunks of equal layers only; leave stage_layers at equal, or take schedule 1f1b",
    )
