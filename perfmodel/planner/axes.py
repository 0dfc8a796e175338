"""The axes of the search: what each may be, and which of its values come to the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from perfmodel.errors import InputError, Place, Problem
from perfmodel.origin import place_of
from perfmodel.specs.offload import Offload
from perfmodel.specs.sharding import STAGES, USEFUL
from perfmodel.specs.strategy import order_faults
from perfmodel.yamlfile import fault_message, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfmodel.specs import Strategy

DEGREES = ("tp", "cp", "pp", "dp", "ep", "etp", "vpp", "microbatch", "shard_group")
"""Numbers: all divisors that the devices, the experts, the layers and the batch have, unless the user fixes some."""
OFFLOADS = (
    "activations=host", "optimizer=host", "optimizer=host+activations=host", "optimizer=host+gradients=host+parameters=host",
    "optimizer=host+gradients=host+parameters=host+activations=host",
)  # fmt: skip
"""What frameworks offer to keep on hosts, from little to much."""
CHOICES: dict[str, tuple[Any, ...]] = {
    "sequence_parallel": (False, True),
    "zero": (*range(len(STAGES)), *(letters for letters in USEFUL if letters not in STAGES)),
    "recompute": ("none", "selective", "full"),
    "schedule": ("1f1b", "gpipe", "breadth-first", "zero-bubble-h1", "zero-bubble-h2", "zero-bubble-v", "dual-pipe"),
    "order": ("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"),
    "stage_layers": ("equal", "last-fewer", "ends-fewer"),
    "offload": (None, *map(Offload.model_validate, OFFLOADS)),
    "context": ("all-gather", "ring", "ulysses"),
}
"""Structural choices, each with its values; the first is the plain one. Schedules are those that change no result: no weight is
stale, no pass is without gradient. Orders and offloads are those that frameworks offer; others may be named."""
DEFAULT: dict[str, tuple[Any, ...]] = {
    **CHOICES, "zero": (0, 1, 2, 3), "schedule": ("1f1b",), "stage_layers": ("equal",), "offload": (None,), "context": ("all-gather",),
}  # fmt: skip
"""What is searched where nobody says otherwise: most frameworks have one schedule, want layers that divide, and shard
states as ZeRO does, and keep all of them on the devices."""
AXES = (*DEGREES, *CHOICES)
ALL = "all"
"""In the place of the values of a structural choice: each of them."""


@dataclass(frozen=True, slots=True)
class Axes:
    """Values of each axis; degrees that are not named take every divisor."""

    degrees: Mapping[str, tuple[int, ...]]
    choices: Mapping[str, tuple[Any, ...]]
    accumulates: bool = True
    """Whether a replica may take its samples in any number of microbatches, not only in one for each stage."""

    def allows(self, name: str, values: Any) -> Any:
        """Which of a column of degrees the user left open, or named."""
        import numpy as np

        named = self.degrees.get(name)
        return np.ones(np.shape(values), dtype=bool) if named is None else np.isin(values, named)


def axes_of(strategy: Strategy, fixed: Mapping[str, Any]) -> Axes:
    """Axes that the user fixed, else as the strategy states them, else all values.

    Args:
        strategy: what it states itself of an axis is kept.
        fixed: {axis: value or values}, which goes before it.

    Raises InputError with each axis or value that there is none of.
    """
    problems = [*_faults(fixed), *_unsearched(strategy, fixed)]
    if problems:
        raise InputError(problems)
    stated = {name: getattr(strategy, name) for name in AXES if name in strategy.model_fields_set}
    named = {name: _values(name, value) for name, value in {**stated, **fixed}.items() if value is not None}
    if "offload" in named:
        named["offload"] = tuple(dict.fromkeys(map(_offload, named["offload"])))
    choices = {name: named.get(name, values) for name, values in DEFAULT.items()}
    if strategy.sync != "all-reduce":
        if any(named.get("zero", (0,))):
            message = f"{strategy.sync} keeps whole replicas; leave zero at 0"
            raise InputError([Problem(Place("--fix zero"), "", message)])
        choices["zero"] = (0,)
    if strategy.attention != "unfused" and "recompute" not in named:
        choices["recompute"] = ("none", "full")  # fused attention leaves selective recomputation nothing to drop
    return Axes({name: values for name, values in named.items() if name in DEGREES}, choices)


def _values(name: str, value: Any) -> tuple[Any, ...]:
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    return CHOICES[name] if values == (ALL,) and name in CHOICES else values


def _faults(fixed: Mapping[str, Any]) -> Iterator[Problem]:
    for name, value in fixed.items():
        place = Place(f"--fix {name}")
        if name not in AXES:
            yield Problem(
                place, "", f"is no axis of the search{nearest(name, AXES) or '; they are ' + ', '.join(AXES)}"
            )
            continue
        for one in _values(name, value):
            if name == "order":
                yield from (Problem(place, "", fault.message) for fault in order_faults(str(one)))
            elif name == "offload":
                yield from (Problem(place, "", message) for message in _offload_faults(one))
            elif name in CHOICES and not any(
                one is known or (one == known and type(one) is type(known)) for known in CHOICES[name]
            ):
                yield Problem(place, "", f"{_shown(one)} is none of {', '.join(map(_shown, CHOICES[name]))}")
            elif name in DEGREES and (not isinstance(one, int) or isinstance(one, bool) or one < 1):
                yield Problem(place, "", f"must be a whole number above 0, not {one!r}")


def _offload(value: Any) -> Offload | None:
    """As a strategy has it; None where nothing leaves."""
    made = Offload() if value is None else Offload.model_validate(value)
    return made if made.tiers else None


def _offload_faults(value: Any) -> Iterator[str]:
    try:
        made = Offload() if value is None else Offload.model_validate(value)
    except ValidationError as error:
        yield from (fault_message(Offload, fault["loc"], fault) for fault in error.errors())
        return
    yield from (fault.message for fault in made.faults())


def _unsearched(strategy: Strategy, fixed: Mapping[str, Any]) -> Iterator[Problem]:
    """What a strategy may state and the search has not."""
    if strategy.schedule not in CHOICES["schedule"] and "schedule" not in fixed:
        known = ", ".join(CHOICES["schedule"])
        message = f"{strategy.schedule} changes what is computed; the search knows {known}"
        yield Problem(place_of(strategy.schedule, Place(f"strategy {strategy.name}")), "schedule", message)
    if strategy.stage_layers not in CHOICES["stage_layers"] and "stage_layers" not in fixed:
        message = f"names the layers of one pipeline; the search knows {', '.join(CHOICES['stage_layers'])}"
        yield Problem(place_of(strategy.stage_layers, Place(f"strategy {strategy.name}")), "stage_layers", message)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
