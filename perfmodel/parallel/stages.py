"""Which layers each stage of a pipeline has, and each chunk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from perfmodel.parallel import Layout, LocalBlock, Share
    from perfmodel.units import Count


def is_mixed(share: Share) -> bool:
    """Whether layers are of several kinds, so that it matters which ones a stage has."""
    return any(block.places for block in share.body)


def on_stage(share: Share, layout: Layout, stage: Count) -> Share:
    """The share with the layers that a stage has; stages may be a column."""
    made = layout.cut
    fewer = made.fewer(stage, layout.pp)

    def repeat(block: LocalBlock) -> Count:
        if not block.places or not np.all(made.chunk):
            return block.repeat - fewer * (block.repeat / share.layers)
        deep = np.ndim(np.asarray(stage) + layout.pp)
        places = np.array(block.places).reshape(-1, *[1] * deep)
        layers: Count = np.sum(made.stage_of(places, layout.pp) == stage, axis=0)
        return layers

    return replace(share, body=tuple(replace(block, repeat=repeat(block)) for block in share.body))


def by_chunk(share: Share, layout: Layout) -> tuple[LocalBlock, ...]:
    """Layers of each kind in each chunk along the model, as columns; of a model whose layers are of several kinds."""
    chunks = int(layout.pp) * int(layout.vpp)
    return tuple(
        replace(block, repeat=np.bincount(layout.cut.chunk_of(np.array(block.places)), minlength=chunks))
        for block in share.body
    )
