"""Pipeline schedules: the order of forward and backward passes, one file each."""

from __future__ import annotations

from perfmodel.schedule.step import Stage, step
from perfmodel.schedule.table import SCHEDULES, Schedule

__all__ = ["SCHEDULES", "Schedule", "Stage", "step"]
