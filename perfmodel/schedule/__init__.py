"""Pipeline schedules: the order of forward and backward passes, one file each."""

from __future__ import annotations

from perfmodel.schedule.one_f_one_b import Stage, step

__all__ = ["Stage", "step"]
