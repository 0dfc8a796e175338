"""How a host makes samples ready for its devices: reading, decoding, augmenting."""

from __future__ import annotations

from typing import Literal

from perfmodel.specs.common import Group, Size
from perfmodel.units import Seconds


class InputPipeline(Group):
    """Preparation of real samples on the cores of the hosts, ahead of the step that takes them; synthetic data need none."""

    sample: Seconds
    """Of one core, to prepare one sample: an ImageNet picture takes 5 to 20 ms to decode, crop and resize."""
    cores: Size | None = None
    """Of each host that work on it; default all cores that the machine's file gives its host."""
    when: Literal["beside", "before"] = "beside"
    """beside: processes of their own prepare samples of the next step during this one; before: each rank prepares those of its own
    step first, on one core (PyTorch's DataLoader with num_workers=0, its default)."""
