"""Where a pipeline cuts a model whose layers do not divide by the chunks of its stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.specs.workload import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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

    def stage_of(self, layers: Count, stages: Count) -> Count:
        """Which stages layers, counted from 0, are on."""
        return (np.asarray(layers) + self.shift) // self.chunk % stages


EVEN = Cut()
"""Stages that are all alike."""


def cut(layers: int, strategy: Any) -> Cut:
    """Chunks as full as the fullest must be; what lacks, the ends have fewer.

    With `last-fewer` the last stage, which has the head, takes what is left; with `ends-fewer` embedding and head count
    as layers: the first stage has as many fewer as the last, or one less.
    """
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
    made = cut(layers, strategy)
    yield (
        np.asarray(np.maximum(made.spare, made.shift) > made.chunk),
        lambda: (
            f"{strategy.pp} x {strategy.vpp} chunks of {made.chunk} layers are {made.spare + made.shift} more than the {layers}"
            " of the model, which its ends cannot lack; take fewer chunks, or leave stage_layers at equal"
        ),
    )
