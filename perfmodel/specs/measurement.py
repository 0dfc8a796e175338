"""One measured value of one configuration: a row of the measurement CSV."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from perfmodel.csvfile import read_csv
from perfmodel.errors import InputError, Place, Problem
from perfmodel.specs.common import Degree, Precision
from perfmodel.specs.strategy import Attention, Recompute, Schedule
from perfmodel.units import UNITS
from perfmodel.yamlfile import Spec, fault_message, nearest
from perfmodel.yamltext import scalar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

Metric = Literal[
    "step_time",
    "samples_per_second",
    "tokens_per_second",
    "tokens_per_second_per_device",
    "model_flops_per_device_per_second",
    "hardware_flops_per_device_per_second",
    "mfu",
    "hfu",
    "peak_memory",
]
FlopConvention = Literal["full-attention", "causal", "6nd"]
MemoryFigure = Literal["states", "allocated", "reserved", "device"]
"""Weights, gradients, optimiser and activations alone, as formulas give them; what tensors take at most
(torch.cuda.max_memory_allocated); what the allocator holds (max_memory_reserved); all that is not free (nvidia-smi)."""
MemoryStage = Literal["fullest", "first", "last"]
METRIC_UNIT = {
    "step_time": "s", "samples_per_second": "samples/s", "tokens_per_second": "tokens/s",
    "tokens_per_second_per_device": "tokens/s", "model_flops_per_device_per_second": "FLOP/s",
    "hardware_flops_per_device_per_second": "FLOP/s", "mfu": "1", "hfu": "1", "peak_memory": "B",
}  # fmt: skip
"""SI unit of each metric."""

DIRECTNESS: tuple[Metric, ...] = (
    "step_time", "samples_per_second", "tokens_per_second", "tokens_per_second_per_device",
    "model_flops_per_device_per_second", "hardware_flops_per_device_per_second", "mfu", "hfu",
)  # fmt: skip
"""Metrics of time from the most direct; the later ones hang on conventions of counting FLOP."""


class Measurement(Spec):
    """A row; an empty cell is unknown or default."""

    id: str = Field(min_length=1)
    """Rows of one configuration share what stands before a ``#``."""
    source: str = ""
    address: str = ""
    table: str = ""
    date: str = ""
    workload: str = Field(min_length=1)
    hardware: str = Field(min_length=1)
    devices: Degree | None = None
    strategy: str | None = None
    tp: Degree | None = None
    pp: Degree | None = None
    vpp: Degree | None = None
    dp: Degree | None = None
    cp: Degree | None = None
    ep: Degree | None = None
    sequence_parallel: bool | None = None
    zero: int | None = Field(default=None, ge=0, le=3)
    shard_group: Degree | None = None
    microbatch: Degree | None = None
    global_batch: Degree | None = None
    seq_len: Degree | None = None
    precision: Precision | None = None
    recompute: Recompute | None = None
    attention: Attention | None = None
    schedule: Schedule | None = None
    sync: str | None = None
    overrides: str = ""
    """``path=value; path=value``, as with ``--set``."""
    metric: Metric
    value: float = Field(gt=0, allow_inf_nan=False)
    unit: str = ""
    spread: str = ""
    split: Literal["calibration", "test"] = "test"
    notes: str = ""
    convention: FlopConvention | None = None
    """Of rates and shares of FLOP: how the source counts them; None is full attention."""
    memory_figure: MemoryFigure | None = None
    """Of peak_memory: what the source measured; None is allocated."""
    memory_stage: MemoryStage | None = None
    """Of peak_memory: the device of which pipeline stage; None is the fullest."""

    @field_validator("overrides")
    @classmethod
    def _assignments(cls, text: str) -> str:
        for part in filter(None, map(str.strip, text.split(";"))):
            if "=" not in part:
                raise ValueError(f"{part!r} must be path=value")
        return text

    @field_validator("memory_figure", "memory_stage")
    @classmethod
    def _of_memory(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value and info.data.get("metric", "peak_memory") != "peak_memory":
            raise ValueError("belongs to peak_memory alone; leave it empty")
        return value

    @field_validator("convention")
    @classmethod
    def _of_flop(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value and info.data.get("metric", "mfu") not in DIRECTNESS[-4:]:
            raise ValueError("belongs to rates and shares of FLOP alone; leave it empty")
        return value

    @field_validator("unit")
    @classmethod
    def _unit_of_the_metric(cls, unit: str, info: ValidationInfo) -> str:
        if "metric" in info.data:
            unit_size(info.data["metric"], unit)
        return unit

    @property
    def configuration(self) -> str:
        """What rows of one configuration share."""
        return self.id.partition("#")[0]

    @property
    def measured(self) -> float:
        """The value in the SI unit of its metric."""
        return self.value * unit_size(self.metric, self.unit)

    @property
    def settings(self) -> dict[str, Any]:
        """Single options of the job."""
        names = ("devices", "tp", "pp", "vpp", "dp", "cp", "ep", "zero", "shard_group", "microbatch", "precision",
                 "recompute", "attention", "schedule", "sync", "sequence_parallel")  # fmt: skip
        given = {name: getattr(self, name) for name in names} | {"batch": self.global_batch, "seq": self.seq_len}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def sets(self) -> dict[str, Any]:
        """Overrides by path."""
        parts = filter(None, map(str.strip, self.overrides.split(";")))
        pairs = (part.partition("=") for part in parts)
        return {path.strip(): scalar(value.strip()) for path, _, value in pairs}


HEADER = tuple(Measurement.model_fields)


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement and where it stands."""

    place: Place
    measurement: Measurement


def unit_size(metric: str, unit: str) -> float:
    """How many SI units of ``metric`` one ``unit`` is; raises ValueError for a unit of another kind.

    >>> unit_size("step_time", "ms"), unit_size("mfu", "%"), unit_size("peak_memory", "GiB")
    (0.001, 0.01, 1073741824.0)
    """
    expected = METRIC_UNIT[metric]
    if unit in {"", expected}:
        return 1.0
    if expected == "1" and unit in {"fraction", "%"}:
        return 0.01 if unit == "%" else 1.0
    if expected.endswith("/s") and expected != "FLOP/s":
        alike = {"samples/s": ("images/s", "sequences/s"), "tokens/s": ("tok/s",)}[expected]
        if unit in alike:
            return 1.0
    base, size = UNITS.get(unit.removesuffix("/s"), ("", 0.0))
    if base and base + "/s" * unit.endswith("/s") == expected:
        return size
    raise ValueError(
        f"{unit!r} is no unit of {metric}, which is {'a fraction or in %' if expected == '1' else f'in {expected}'}"
    )


def read_measurements(path: Path, shown: str = "") -> list[Row]:
    """The rows of a measurement CSV; raises InputError with every fault by line and column name."""
    sheet = read_csv(path, shown)
    problems = list(_header_problems(shown or str(path), sheet.header))
    if problems:
        raise InputError(problems)
    problems.extend(sheet.problems)
    rows: list[Row] = []
    seen: dict[str, int] = {}
    for place, cells in sheet.rows:
        made, found = _row(place, cells)
        problems.extend(found)
        if made:
            if made.id in seen:
                problems.append(Problem(place, "id", f"{made.id!r} stands in line {seen[made.id]} already"))
            seen.setdefault(made.id, place.line)
            rows.append(Row(place, made))
    if problems:
        raise InputError(sorted(problems, key=lambda p: p.place.line))
    return rows


def _header_problems(file: str, header: Sequence[str]) -> Iterator[Problem]:
    place = Place(file, 1, 1)
    for name in dict.fromkeys(header):
        if not name:
            yield Problem(place, "csv", f"column {header.index(name) + 1} has no name")
        elif name not in HEADER:
            yield Problem(place, name, f"unknown column{nearest(name, HEADER)}")
        if name and header.count(name) > 1:
            yield Problem(place, name, "this column stands twice")
    required = (name for name, field in Measurement.model_fields.items() if field.is_required())
    for name in required:
        if name not in header:
            yield Problem(place, name, "this column is required")


def _row(place: Place, cells: Mapping[str, str]) -> tuple[Measurement | None, list[Problem]]:
    given = {name: text.strip() for name, text in cells.items() if text.strip()}
    try:
        return Measurement.model_validate(given), []
    except ValidationError as error:
        return None, [Problem(place, str(f["loc"][0]), _message(f)) for f in error.errors()]


def _message(fault: Any) -> str:
    if fault["type"] == "missing":
        return "is empty; a value is required"
    return fault_message(Measurement, fault["loc"], fault)
