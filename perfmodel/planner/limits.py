"""What a plan is judged by: its figures as columns, and bounds on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from perfmodel.cost.demand import room
from perfmodel.cost.kept_off import off_room
from perfmodel.cost.outcome import energy, step_cost
from perfmodel.errors import InputError, Place, Problem
from perfmodel.units import TINY, Unit
from perfmodel.yamlfile import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfmodel.planner.pricing import Candidates
    from perfmodel.specs import Hardware
    from perfmodel.units import Bytes, Count, Seconds

Objective = Literal["time", "throughput", "cost", "energy", "memory"]
OBJECTIVES: dict[Objective, tuple[str, int]] = {
    "time": ("step_time", 1), "throughput": ("throughput.samples_per_second", -1), "cost": ("cost_per_step", 1),
    "energy": ("energy_per_step", 1), "memory": ("memory.peak", 1),
}  # fmt: skip
"""The figure that each makes small, or with -1 large."""


@dataclass(frozen=True)
class Figures:
    """Figures of candidates on one machine, numbers or columns."""

    hardware: Hardware
    candidates: Candidates
    samples: float
    """Of one step."""
    tokens: float | None
    """Of one step."""
    flops: float
    """That the model needs for one step, by the full-attention convention."""
    peak: float
    """FLOP/s of one device."""

    def __getitem__(self, name: str) -> Any:
        """One of `FIGURES`; raises InputError where the machine does not state what it needs."""
        return FIGURES[name][1](self)

    @property
    def devices(self) -> Count:
        """Of the job."""
        return self.candidates.layout.devices

    @property
    def step_time(self) -> Seconds:
        """Of one step."""
        return self.candidates.step_time

    @property
    def memory(self) -> Bytes:
        """On the fullest device."""
        return self.candidates.memory

    def cost(self) -> Any:
        """Price of a step."""
        return _stated(
            step_cost(self.hardware, self.devices, self.step_time), self.hardware, "price", "price.per_device='2 USD/h'"
        )

    def energy(self) -> Any:
        """Of all devices in a step."""
        joules = energy(self.hardware, self.devices, self.step_time, self.candidates.computing)
        return _stated(joules, self.hardware, "power", "device.power.active='400 W'")

    def tokens_per_second(self) -> Any:
        """Of the whole job."""
        if self.tokens is None:
            raise InputError([Problem(Place("--constrain"), "tokens_per_second", "this model has no tokens")])
        return self.tokens / self.step_time


def _stated(value: Any, hardware: Hardware, what: str, example: str) -> Any:
    if value is None:
        message = f"{hardware.name} states no {what}; give a file that does, as with --set hardware.{example}"
        raise InputError([Problem(Place(f"hardware {hardware.name}"), what, message)])
    return value


def _degree(name: str) -> tuple[str, Callable[[Figures], Any]]:
    return "1", lambda figures: getattr(figures.candidates.layout, name)


FIGURES: dict[str, tuple[str, Callable[[Figures], Any]]] = {
    "step_time": ("s", lambda f: f.step_time),
    "memory.peak": ("B", lambda f: f.memory),
    "memory.host.used": ("B", lambda f: f.candidates.kept_off("host")),
    "memory.nvme.used": ("B", lambda f: f.candidates.kept_off("nvme")),
    "mfu": ("1", lambda f: f.flops / (f.step_time * f.devices * f.peak)),
    "throughput.samples_per_second": ("1", lambda f: f.samples / f.step_time),
    "throughput.tokens_per_second": ("1", lambda f: f.tokens_per_second()),
    "cost_per_step": ("USD", lambda f: f.cost()),
    "energy_per_step": ("J", lambda f: f.energy()),
    **{
        name: _degree(name)
        for name in ("devices", "tp", "cp", "pp", "dp", "ep", "etp", "vpp", "microbatch", "microbatches")
    },
}
"""Names as in the JSON of `predict`, with their unit."""

Relation = Literal["<=", ">="]


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound on one figure."""

    figure: str
    relation: Relation
    bound: float
    text: str
    """As the user wrote it."""

    def excess(self, value: Any) -> Any:
        """By which share of the bound a value breaks it; at most 0 where it keeps it.

        >>> Limit("memory.peak", "<=", 80.0, "").excess(100.0), float(Limit("mfu", ">=", 0.5, "").excess(0.4))
        (0.25, 0.25)
        """
        if self.relation == "<=":
            return value / max(self.bound, TINY) - 1
        return self.bound / np.maximum(value, TINY) - 1


def limits_of(texts: Sequence[str], option: str = "--constrain") -> tuple[Limit, ...]:
    """Bounds that the user wrote, as 'memory.peak<=72 GiB' or 'tp<=8'.

    Raises InputError with every one that is none.

    >>> limits_of(["memory.peak<=72 GiB"])[0].bound / 2**30
    72.0
    """
    problems: list[Problem] = []
    found: list[Limit] = []
    for text in texts:
        try:
            found.append(_limit(text))
        except ValueError as error:
            problems.append(Problem(Place(option), text, str(error)))
    if problems:
        raise InputError(problems)
    return tuple(found)


def _limit(text: str) -> Limit:
    match = re.fullmatch(r"\s*([\w.]+)\s*(<=|>=)\s*(\S.*?)\s*", text)
    if not match:
        raise ValueError("must be a figure, <= or >=, and a value, as in 'memory.peak<=72 GiB'")
    name, relation, value = match.groups()
    if name not in FIGURES:
        raise ValueError(
            f"{name!r} is no figure of a plan{nearest(name, FIGURES) or '; they are ' + ', '.join(FIGURES)}"
        )
    return Limit(name, relation, _number(value, FIGURES[name][0]), text)  # type: ignore[arg-type]


def _number(text: str, unit: str) -> float:
    if unit != "1":
        return Unit(unit).parse(text)
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None
    if not 0 < value < np.inf:
        raise ValueError(f"must be a number above 0, not {text}")
    return value


def require_objective(objective: str) -> Objective:
    """An objective by its name; raises InputError where there is none of this name."""
    if objective not in get_args(Objective):
        hint = nearest(objective, OBJECTIVES) or "; they are " + ", ".join(OBJECTIVES)
        raise InputError([Problem(Place("--objective"), "", f"{objective!r} is no objective{hint}")])
    return objective  # type: ignore[return-value]


def broken(limits: Sequence[Limit], figures: Figures) -> NDArray[np.float64]:
    """The largest excess over all bounds, by row."""
    worst: Any = 0.0
    for limit in limits:
        worst = np.maximum(worst, limit.excess(figures[limit.figure]))
    return np.asarray(worst, dtype=float)


def capacity(hardware: Hardware) -> Limit:
    """That the tensors of the fullest device find room, as `Prediction.fits` asks."""
    most = room(hardware)
    return Limit("memory.peak", "<=", most, f"memory.peak<={most:g} B")


def host_room(hardware: Hardware) -> tuple[Limit, ...]:
    """That what leaves the devices finds room in the memory and on the drives of a host."""
    rooms = ((f"memory.{tier}.used", off_room(hardware, tier)) for tier in ("host", "nvme"))
    return tuple(Limit(figure, "<=", most, f"{figure}<={most:g} B") for figure, most in rooms)


def excesses(limits: Sequence[Limit], values: Callable[[str], float]) -> Iterator[tuple[Limit, float, float]]:
    """Of one plan: each bound that it breaks, the value and by which share."""
    for limit in limits:
        value = values(limit.figure)
        share = float(limit.excess(value))
        if share > 0:
            yield limit, value, share
