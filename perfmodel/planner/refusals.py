"""Rows that the rules of a layout refuse: masks over columns, counts, and an example of each rule."""

from __future__ import annotations

from dataclasses import fields, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.parallel.rules import Rules
from perfmodel.parallel.schedule_rules import UNSHARDED
from perfmodel.planner.axes import CHOICES
from perfmodel.planner.space import Choice, sharing
from perfmodel.specs.offload import STAYS
from perfmodel.specs.workload import Transformer

if TYPE_CHECKING:
    from perfmodel.planner.axes import Axes
    from perfmodel.planner.space import Column, Mask
    from perfmodel.specs import Hardware, Strategy, Workload


class Refusals:
    """Rows that each rule refuses, counted once for each sequence parallelism, recomputation and schedule."""

    def __init__(
        self, workload: Workload, hardware: Hardware, strategy: Strategy, devices: int, *, tells: bool = True
    ) -> None:
        """Of one number of devices; ``tells`` counts factorisations, which parts of one space have in common."""
        self.tells = tells
        self.workload, self.hardware, self.strategy, self.devices = workload, hardware, strategy, devices
        self.seen = 0
        """Factorisations, before any rule."""
        self.counts: dict[str, int] = {}
        self.examples: dict[str, tuple[dict[str, int], Choice]] = {}
        """Of each path that a rule blames, degrees that break no other rule where there are such."""
        self._alone: set[str] = set()
        self._masks: dict[tuple[Any, ...], Mask] = {}

    def factorisations(self, base: dict[str, Column], axes: Axes) -> dict[str, Column]:
        """Those that keep all rules with one chunk, one sample and the plainest choices.

        No rule asks for more of them, but experts for the tokens of each rank (sequence parallelism). Layers that need
        not divide are never refused where those that do are not.
        """
        ones = np.ones_like(base["dp"])
        self.seen = len(ones)
        plain = Choice(**{name: values[0] for name, values in CHOICES.items()})
        plain = replace(plain, stage_layers=max(axes.choices["stage_layers"], key=CHOICES["stage_layers"].index))
        if isinstance(self.workload.model, Transformer) and self.workload.model.experts:
            plain = replace(plain, sequence_parallel=True)
        keeps = self._masked({**base, "vpp": ones, "microbatch": ones}, plain)
        if not self.tells:
            self.counts.clear()
        return {name: column[keeps] for name, column in base.items()}

    def mask(self, columns: dict[str, Column], choice: Choice) -> Mask:
        """Rows that keep all rules; the stage of ZeRO matters to some schedules, and to frozen weights in few bits, alone."""
        adapters = self.workload.training.adapters
        narrow = adapters is not None and adapters.stored is not None
        zero = choice.zero if narrow or choice.schedule in UNSHARDED else 0
        key = (*sharing(choice), zero)
        if key not in self._masks:
            self._masks[key] = self._masked(columns, choice)
        return self._masks[key]

    def _masked(self, columns: dict[str, Column], choice: Choice) -> Mask:
        size = len(columns["tp"])
        masks: dict[str, Mask] = {}
        for rule in Rules(self.workload, self.hardware, self._case(columns, choice)).all():
            broken = np.broadcast_to(np.asarray(rule.broken, dtype=bool), size)
            masks[rule.path] = masks.get(rule.path, False) | broken
        total = np.sum(list(masks.values()), axis=0) if masks else np.zeros(size)
        for path, broken in masks.items():
            self._note(path, broken, total, columns, choice)
        return np.asarray(total == 0)

    def _note(self, path: str, broken: Mask, total: Any, columns: dict[str, Column], choice: Choice) -> None:
        count = int(np.count_nonzero(broken))
        if not count:
            return
        self.counts[path] = self.counts.get(path, 0) + count
        alone = np.flatnonzero(broken & (total == 1))
        if path not in self.examples or (len(alone) and path not in self._alone):
            row = alone[0] if len(alone) else np.flatnonzero(broken)[0]
            self.examples[path] = ({name: int(column[row]) for name, column in columns.items()}, choice)
            if len(alone):
                self._alone.add(path)

    def _case(self, columns: dict[str, Column], choice: Choice) -> SimpleNamespace:
        s = self.strategy
        return SimpleNamespace(
            **{"ep": s.ep, "etp": s.etp, **columns}, name=s.name, devices=self.devices, shard_group=None, sync=s.sync,
            keeper=s.keeper, input=s.input, keeps_off=choice.offload or STAYS, ulysses_degree=s.ulysses_degree, attention=s.attention, **{f.name: getattr(choice, f.name) for f in fields(choice)},
        )  # fmt: skip
