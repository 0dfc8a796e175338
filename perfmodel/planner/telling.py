"""Which stages of a pipeline can be the fullest, where degrees are columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from perfmodel.cost.holdings import holdings, telling_stages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfmodel.cost.holdings import Holdings
    from perfmodel.parallel import Layout, Share
    from perfmodel.specs import Strategy
    from perfmodel.units import Count

    Column = NDArray[np.int64]

T = TypeVar("T")


def telling(share: Share, layout: Layout, strategy: Strategy) -> Iterator[tuple[Holdings, Count]]:
    """What the stages have of which one is the fullest, with their numbers."""
    for stage in telling_columns(share, layout):
        yield holdings(share, layout, strategy, stage), stage


def paired(states: tuple[T, ...], activations: tuple[T, ...]) -> Iterator[tuple[T, T]]:
    """Stage by stage; where one table has layouts with more telling stages, the last stage stands in for them in the other."""
    for at in range(max(len(states), len(activations))):
        yield states[min(at, len(states) - 1)], activations[min(at, len(activations) - 1)]


def telling_columns(share: Share, layout: Layout) -> tuple[Count, ...]:
    """Stages of which one is the fullest, by row, and last of all the last; with layers of several kinds the first of each mixture.

    Of stages with the same layers those nearer to the first keep no fewer microbatches, and the last has the head.
    """
    kinds = [block.places for block in share.body if block.places]
    if not kinds:
        return telling_stages(layout)
    rows = np.broadcast_arrays(*(np.asarray(each) for each in (layout.pp, layout.cut.chunk, layout.cut.shift)))
    cuts, place = np.unique(np.stack(rows, axis=-1).reshape(-1, 3).astype(np.int64), axis=0, return_inverse=True)
    found = [_first_of_each(kinds, *map(int, own)) for own in cuts]
    widest = max(map(len, found))
    table = np.array([[*own, *own[-1:] * (widest - len(own))] for own in found], dtype=np.int64)
    return tuple(table[place.reshape(-1)].T)


def _first_of_each(kinds: list[tuple[int, ...]], stages: int, chunk: int, shift: int) -> list[int]:
    """The first stage of each mixture of layers, and the last stage."""
    mixture = np.zeros((stages, len(kinds)), dtype=np.int64)
    for kind, places in enumerate(kinds):
        np.add.at(mixture[:, kind], (np.array(places) + shift) // chunk % stages, 1)
    _, first = np.unique(mixture, axis=0, return_index=True)
    return sorted({0, *first.tolist(), stages - 1})
