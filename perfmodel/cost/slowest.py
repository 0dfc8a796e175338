"""Stages whose layers are of unequal kinds: the one that takes longest sets the pace of a pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.cost.holdings import on_stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfmodel.parallel import Layout, Share
    from perfmodel.units import Count, Seconds


def slowest(share: Share, layout: Layout, times: Sequence[Seconds]) -> Share:
    """The share with the layers of the stage that takes longest, which may be another in each row of a column.

    Args:
        share: with the layers of an average stage.
        layout: degrees.
        times: of one repetition of each block of the body, forward and backward.
    """
    most: Seconds = -1.0
    repeats: list[Count] = [block.repeat for block in share.body]
    for stage in range(int(np.max(layout.pp))):
        held = [block.repeat for block in on_stage(share, layout, stage).body]
        total = sum(count * time for count, time in zip(held, times, strict=True))
        longer = total > np.asarray(most)
        most = np.where(longer, total, most)
        repeats = [np.where(longer, mine, before) for mine, before in zip(held, repeats, strict=True)]
    body = tuple(replace(block, repeat=count) for block, count in zip(share.body, repeats, strict=True))
    return replace(share, body=body)
