"""Tables of training runs other than LLMs: throughput or step time of one model on one machine.

A study is one source (or several small ones); `training_studies` says for each what its rows mean. Rates become
samples per second, iterations per second a step time; times that are no steps are skipped with the reason.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Literal, cast

from validation.tools.cases import Case, Skipped
from validation.tools.training_names import AMPERE, BEFORE_TF32, UnfitError
from validation.tools.training_studies import Job, Row, Sources, study

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.specs.measurement import Metric

HEADER = frozenset(
    {"source", "address", "table", "date", "model", "task", "framework", "hardware", "device", "devices", "devices_per_node",
     "interconnect", "precision", "batch_per_device", "batch_global", "strategy", "metric", "value", "unit", "notes", "split"}
)  # fmt: skip
"""Columns that tell this kind of table from others."""

SAMPLES = {"images/s", "samples/s", "sequences/s", "sentences/s", "items/s", "as logged (samples/s for vision)"}
NO_STEPS = {
    "time_to_train": "the time to train hangs on convergence",
    "time per epoch of random dataset": "an epoch of unknown size",
    "scaling_efficiency": "a ratio of rates, not a rate",
    "speedup": "a ratio of rates, not a rate",
    "speed-up of BytePS over Horovod": "a ratio of rates, not a rate",
    "forward_time": "the forward pass alone",
    "backward_time": "the backward pass alone",
    "backward_pass_time": "the backward pass alone",
    "achieved_tflops": "FLOP counted in a way that the source does not state; its throughput is a case",
}
"""Metrics that are no steps, and why."""

PRECISIONS = {"mixed": "fp16", "FP16": "fp16", "FP32": "fp32", "TF32": "tf32"}


def rows(raw: Iterator[dict[str, str]]) -> Iterator[Case | Skipped]:
    """One case or one reason for each row; numbers count the rows of a study in the order of the table."""
    table = list(raw)
    sources = Sources(table)
    numbers: Counter[str] = Counter()
    for line in table:
        name, recipe = study(line)
        numbers[name] += 1
        stem = f"{name}-{numbers[name]:04d}"
        try:
            row = Row(line)
            if row["metric"] in NO_STEPS:
                raise UnfitError(NO_STEPS[row["metric"]])  # noqa: TRY301 - the reason is yielded below
            yield _case(stem, row, recipe(row, sources))
        except UnfitError as error:
            yield Skipped(stem, str(error))


def measure(row: Row, job: Job | None = None) -> tuple[Metric, str, str, str]:
    """Metric, value, unit and a note of the conversion; raises UnfitError for what is no step.

    >>> measure(Row({"metric": "iterations_per_second", "value": "4", "unit": "steps/s"}))
    ('step_time', '0.25', 's', '1 / iterations per second')
    """
    metric, value, unit = row["metric"], row["value"], row["unit"]
    if job and job.epoch:
        return (
            "samples_per_second",
            f"{job.epoch / float(value):.6g}",
            "samples/s",
            f"{job.epoch} samples / time of an epoch",
        )
    if metric == "throughput" and unit in SAMPLES:
        done = f"{float(value) * job.share:.6g}" if job and job.share != 1 else value
        return "samples_per_second", done, "samples/s", ""
    if metric == "throughput" and unit == "million samples/s":
        return "samples_per_second", f"{float(value) * 1e6:.9g}", "samples/s", ""
    if metric == "step_time":
        return "step_time", value, "s", ""
    if metric == "iterations_per_second":
        return "step_time", f"{1 / float(value):.6g}", "s", "1 / iterations per second"
    if metric == "forward+backward_time" and unit == "ms":
        return "step_time", value, "ms", "forward and backward pass, no optimiser step"
    raise UnfitError(f"{unit or 'no unit'} is no count of samples")


def _case(stem: str, row: Row, job: Job) -> Case:
    metric, value, unit, conversion = measure(row, job)
    devices = job.devices or row.number("devices")
    replicas = devices // (job.pp or 1)
    model, machine = job.model, job.machine
    overrides = {**model.overrides, **machine.overrides}
    if job.layout:
        overrides["strategy.layout"] = job.layout
    if row["metric"] == "forward+backward_time":
        overrides["workload.training.optimizer"] = "sgd"
    microbatch = job.microbatch or row.number("batch_per_device")
    product = precision(row, job)
    default = "fp32 as tf32, the device's default" if product == "tf32" and row["precision"].startswith("FP32") else ""
    notes = (row["framework"], conversion, default, model.note, machine.note, job.note, _printed(row["notes"]))
    return Case(
        id=f"{stem}#{metric}", source=row["source"], address=row["address"], table=row["table"], date=row["date"],
        workload=model.workload, hardware=machine.hardware, devices=devices, strategy=job.strategy,
        pp=job.pp, dp=replicas if devices > 1 else None, microbatch=microbatch,
        global_batch=job.global_batch or microbatch * job.accumulation * replicas,
        seq_len=model.seq_len, precision=product, recompute=job.recompute, attention=model.attention,
        schedule=job.schedule, overrides=overrides, metric=metric, value=value, unit=unit, spread=spread(row),
        split=cast("Literal['calibration', 'test']", row["split"]), notes="; ".join(filter(None, notes)),
    )  # fmt: skip


def precision(row: Row, job: Job) -> str:
    """Of the products; fp32 means tf32 where a device does so by default and the source does not say otherwise.

    >>> from validation.tools.training_names import Machine, Model
    >>> job = Job(Model("resnet-50"), Machine("a100-pcie-80gb"))
    >>> precision(Row({"precision": "FP32 (TF32 where the GPU has it)", "device": "A100 80GB PCIe"}), job)
    'tf32'
    """
    printed = row["precision"]
    if job.as_run:
        return job.as_run
    if not printed:
        return job.precision or _refuse("the precision is not stated")
    if printed.startswith("FP32"):
        return "tf32" if AMPERE.search(row["device"]) and not BEFORE_TF32.match(row["framework"]) else "fp32"
    return PRECISIONS.get(printed) or _refuse(f"precision {printed}")


def spread(row: Row) -> str:
    """What a note gives as ``+-x``, relative to the value.

    >>> spread(Row({"value": "200", "notes": "method WFBP; +-4; 1 run"}))
    '0.02'
    """
    found = re.search(r"\+-(\d+(?:\.\d+)?)", row["notes"])
    return f"{float(found.group(1)) / float(row['value']):.3g}" if found else ""


def _printed(notes: str) -> str:
    """The part of a note that no column holds, short."""
    parts = [part.strip() for part in notes.split(";")]
    dropped = re.compile(
        r"\+-|power .*W|tracked_stats|epoch_start|instance type|batch size in job name|implies|runs? \d"
    )
    return "; ".join(part for part in parts if part and not dropped.match(part))[:160]


def _refuse(reason: str) -> str:
    raise UnfitError(reason)
