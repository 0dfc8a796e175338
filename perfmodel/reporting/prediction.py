"""A prediction as a report; the keys of its JSON are a contract."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.cost.capacity import CLASSES
from perfmodel.cost.demand import room
from perfmodel.cost.kept_off import off_room
from perfmodel.graph.flops import CONVENTIONS
from perfmodel.planner.microbatch import faster_microbatch
from perfmodel.reporting.remedies import remedy
from perfmodel.reporting.report import Report, Section, flat
from perfmodel.reporting.text import count, long_time, quantity, rate, share
from perfmodel.reporting.variation import variation_record, variation_sections
from perfmodel.variation.varied import Varied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfmodel.cost.demand import Range
    from perfmodel.cost.outcome import Run
    from perfmodel.graph.flops import Convention
    from perfmodel.prediction import Prediction
    from perfmodel.specs.strategy import Framework

SCHEMA = 1


def prediction_report(prediction: Prediction) -> Report:
    """Everything that `predict` says of one step."""
    made = record(prediction)
    row = {key: value for key, value in flat(made).items() if key != "schema"}
    sections: tuple[Section, ...] = (_result(prediction), _breakdown(prediction), _memory(prediction))
    if isinstance(prediction, Varied):
        sections = (*sections, *variation_sections(prediction))
    return Report(made, [row], sections, tuple(f"warning: {w}" for w in made["warnings"]))


def record(prediction: Prediction) -> dict[str, Any]:
    """The JSON of a prediction, in SI units."""
    p, devices = prediction, float(prediction.layout.devices)
    tokens = p.tokens_per_second
    low, high = p.interval
    lower, upper = p.bounds
    return {
        "schema": SCHEMA,
        "workload": str(p.workload.name),
        "hardware": str(p.hardware.name),
        "strategy": _strategy(p),
        "step_time": p.step_time,
        "throughput": {
            "samples_per_second": p.samples_per_second,
            "tokens_per_second": tokens,
            "tokens_per_second_per_device": None if tokens is None else tokens / devices,
        },
        "flops_per_device_per_second": p.flops() / (p.step_time * devices),
        "mfu": p.mfu(),
        "hfu": p.hfu,
        "mfu_by_convention": {name: p.mfu(name) for name in CONVENTIONS},
        "hfu_by_convention": {name: p.hfu_by(name) for name in CONVENTIONS},
        "flops_by_convention": {**{name: p.flops(name) for name in CONVENTIONS}, "hardware": p.hardware_flops},
        "memory": {
            "peak": p.memory_peak,
            "capacity": float(p.hardware.device.memory.capacity),
            "fits": p.fits,
            "margin": p.memory_margin,
            "reserved": _fullest(p.memory_reserved),
            "device": _fullest(p.memory_device),
            "stages": list(_stages(p)),
            **{tier: _off_record(p, tier) for tier in sorted(_used(p))},
        },
        "bounds": {"lower": lower, "upper": upper},
        "interval": {"low": low, "high": high, "probability": 0.8},
        **({"training": asdict(p.run)} if p.run else {}),
        "cost_per_step": p.cost,
        "energy_per_step": p.energy,
        "parameters": float(p.graph.parameters),
        "trained_parameters": float(p.graph.trained),
        "losses": p.losses,
        "breakdown": list(_breakdown_by_name(p).values()),
        **(variation_record(p) if isinstance(p, Varied) else {}),
        "warnings": list(warnings(p)),
    }


def warnings(prediction: Prediction) -> Iterator[str]:
    """What the user should know before trusting the numbers."""
    p = prediction
    yield from _memory_warnings(p)
    larger = faster_microbatch(p)
    if larger is not None:
        size, time = int(larger.layout.microbatch), quantity(larger.step_time, "s")
        yield f"each replica takes its samples one at a time; give --microbatch {size}, the largest that fits, for steps of {time}"
    if p.strategy.sync == "parameter-server" and not _memory_of_servers_is_known(p):
        yield (
            "adding up on servers counts as free: the bandwidth of their memory is not known; "
            "give strategy.servers.memory_bandwidth or hardware.host.memory_bandwidth"
        )
    assumed = [path for path, group in p.sourced.items() if group.status == "assumed"]
    if assumed:
        yield f"{len(assumed)} of {len(p.sourced)} groups of the hardware file are assumed: {', '.join(assumed)}"


def _used(p: Prediction) -> set[str]:
    return {tier for tier, sizes in p.kept_off.items() if sizes}


def _off_record(p: Prediction, tier: str) -> dict[str, Any]:
    """Of one host: what its memory or its drives keep for its devices, and how much they have."""
    sizes = p.kept_off[tier]
    used, has = sum(sizes.values()), off_room(p.hardware, tier)
    return {"used": used, "capacity": has, "fits": used <= has, "states": sizes}


OFF = {"host": "the memory of a host", "nvme": "the drives of a host"}


def _off_warnings(p: Prediction) -> Iterator[str]:
    """That hosts do not suffice for what is kept off the devices, and which state takes most."""
    for tier in sorted(_used(p)):
        made = _off_record(p, tier)
        if not made["fits"]:
            largest = max(made["states"], key=made["states"].get)
            yield (
                f"does not fit: {quantity(made['used'] - made['capacity'], 'B')} more than {OFF[tier]} has, {quantity(made['capacity'], 'B')}; "
                f"most is {largest}, {quantity(made['states'][largest], 'B')}: offload less of it"
                f"{', or to nvme' if tier == 'host' else ''}, or take more hosts"
            )


def _memory_warnings(p: Prediction) -> Iterator[str]:
    """That memory does not suffice, or may not, and which class of the fullest stage to attack."""
    yield from _off_warnings(p)
    capacity, most = float(p.hardware.device.memory.capacity), _fullest(p.memory_device)["high"]
    fits = p.memory_peak <= room(p.hardware)
    if fits and most <= capacity:
        return
    sizes = list(_stages(p))[int(np.argmax(np.broadcast_to(p.footprint.total, int(p.layout.pp))))]
    largest = max(CLASSES, key=lambda name: sizes[name])
    attack = f"most is {largest}, {quantity(sizes[largest], 'B')}: {remedy(largest, p.workload, p.strategy)}"
    if fits:
        yield f"tight: up to {quantity(most, 'B')} with what the allocator keeps, context and collectives; {attack}"
    else:
        missing = p.memory_peak - room(p.hardware)
        yield f"does not fit: {quantity(missing, 'B')} more than tensors find room for; {attack}"


def _fullest(span: Range) -> dict[str, float]:
    """A range on the device that has most."""
    return {name: float(np.max(getattr(span, name))) for name in ("low", "typical", "high")}


def _memory_of_servers_is_known(p: Prediction) -> bool:
    servers = p.strategy.keeper
    on_devices = servers.placement == "colocated" and servers.workers == "devices"
    return on_devices or (servers.memory_bandwidth or p.hardware.host.memory_bandwidth) is not None


def _breakdown_by_name(p: Prediction) -> dict[str, dict[str, Any]]:
    """Terms of one name as one: calls of other sizes are added up."""
    merged: dict[str, dict[str, Any]] = {}
    for leaf, time, exposed in p.terms:
        row = merged.setdefault(
            leaf.name,
            {"name": leaf.name, "kind": leaf.kind, "time": 0.0, "exposed": 0.0, "formula": leaf.formula.__name__},
        )
        row["time"] += time
        row["exposed"] += exposed
    return merged


def _strategy(p: Prediction) -> dict[str, Any]:
    left_out = {"schema_version", "name", "description", "sources"}
    chosen = {k: v for k, v in p.strategy.model_dump().items() if k not in left_out}
    training = p.workload.training
    return {
        "name": str(p.strategy.name), **chosen,
        "devices": int(p.layout.devices), "dp": int(p.layout.dp), "shard_group": int(p.layout.shard_group),
        "microbatches": int(p.layout.microbatches), "batch": int(training.batch),
        "sequence": None if training.sequence is None else int(training.sequence), "precision": training.precision,
    }  # fmt: skip


def _stages(p: Prediction) -> Iterator[dict[str, Any]]:
    stages = int(np.size(p.footprint.total))
    classes = {name: np.broadcast_to(column, stages) for name, column in p.footprint.classes.items()}
    for stage in range(stages):
        sizes = {name: float(column[stage]) for name, column in classes.items()}
        yield {"stage": stage, "total": sum(sizes.values()), **sizes}


def _result(p: Prediction) -> Section:
    layout, (low, high), (lower, upper) = p.layout, p.interval, p.bounds
    devices, device = int(layout.devices), _fullest(p.memory_device)
    degrees = f"tp {layout.tp} x pp {layout.pp} x cp {layout.cp} x dp {layout.dp}"
    rows = [
        ("devices", f"{count(devices)} {p.hardware.device.name} = {degrees}"),
        ("batch", f"{count(float(p.layout.batch))} = dp {layout.dp} x microbatch {layout.microbatch} x {layout.microbatches:.0f} microbatches"),
        ("software", _software(p.strategy.framework)),
        ("step time", f"{quantity(p.step_time, 's')}   (80 % interval {quantity(low, 's')} to {quantity(high, 's')})"),
        ("bounds", f"{quantity(lower, 's')} if all messages hid, {quantity(upper, 's')} if none did"),
        ("throughput", _throughput(p, devices)),
        ("model FLOP/s", f"{quantity(p.flops() / (p.step_time * devices), 'FLOP/s')} per device"),
        ("MFU", _utilisation(p, p.mfu(), p.mfu)),
        ("HFU", f"{_utilisation(p, p.hfu, p.hfu_by)}; recomputation counted"),
        ("memory", f"{quantity(p.memory_peak, 'B')} of {quantity(p.hardware.device.memory.capacity, 'B')}: {'fits' if p.memory_peak <= room(p.hardware) else 'DOES NOT FIT'}"),
        ("on device", f"{quantity(device['low'], 'B')} to {quantity(device['high'], 'B')}, usually {quantity(device['typical'], 'B')}"),
    ]  # fmt: skip
    rows += [_off_row(tier, _off_record(p, tier)) for tier in sorted(_used(p))]
    if p.cost is not None:
        rows.append(("cost", f"{quantity(p.cost, 'USD')} per step"))
    if p.energy is not None:
        rows.append(("energy", f"{quantity(p.energy, 'J')} per step, devices only"))
    if p.run is not None:
        rows.append(("training", _run(p.run, devices)))
    return Section(f"{p.workload.name} on {p.hardware.name}", ("", ""), tuple(rows))


def _software(framework: Framework | None) -> str:
    """Whose habits are in the prediction, and how well it is known."""
    if framework is None:
        return "none named (--strategy): the host costs nothing, and nothing is known of habits"
    if framework.error_80 is None:
        return f"{framework.name}, of which no measured run is on record"
    return f"{framework.name}: 80 % of {count(framework.points or 0)} measured runs within {share(framework.error_80)}"


def _off_row(tier: str, made: dict[str, Any]) -> tuple[str, str]:
    states = ", ".join(f"{name} {quantity(size, 'B')}" for name, size in made["states"].items())
    whole = f"{quantity(made['used'], 'B')} of {quantity(made['capacity'], 'B')}: {'fits' if made['fits'] else 'DOES NOT FIT'}"
    return f"each {'host' if tier == 'host' else 'host, nvme'}", f"{whole} ({states})"


def _run(run: Run, devices: int) -> str:
    paid = [quantity(value, unit) for value, unit in ((run.cost, "USD"), (run.energy, "J")) if value is not None]
    hours = f"{count(run.time * devices / 3600)} device hours"
    return f"{count(run.steps)} steps in {long_time(run.time)} without failures: {', '.join((hours, *paid))}"


def _utilisation(p: Prediction, plain: float, by: Callable[[Convention], float]) -> str:
    """Under each convention; models without tokens have but one."""
    if p.tokens_per_step is None:
        return share(plain)
    return ", ".join(f"{share(by(name))} ({name})" for name in CONVENTIONS)


def _throughput(p: Prediction, devices: int) -> str:
    samples = f"{rate(p.samples_per_second)} samples/s"
    tokens = p.tokens_per_second
    return (
        samples
        if tokens is None
        else f"{samples}, {count(tokens)} tokens/s, {count(tokens / devices)} tokens/s per device"
    )


def _breakdown(p: Prediction) -> Section:
    rows = [
        (kind, quantity(time, "s"), quantity(exposed, "s"), share(exposed / p.step_time))
        for kind, (time, exposed) in sorted(p.kinds.items(), key=lambda item: -item[1][1])
    ]
    total = ("step", "", quantity(p.step_time, "s"), share(1.0))
    return Section("Where the time goes", ("kind", "time", "exposed", "of step"), (*rows, total), frozenset({1, 2, 3}))


def _memory(p: Prediction) -> Section:
    stages = list(_stages(p))
    names = [name for name in CLASSES if any(stage[name] for stage in stages)]
    shown = stages if len(stages) <= 4 else [stages[0], stages[1], stages[-2], stages[-1]]
    rows = tuple(
        (str(s["stage"]), quantity(s["total"], "B"), *(quantity(s[name], "B") for name in names)) for s in shown
    )
    return Section("Memory per pipeline stage", ("stage", "total", *names), rows, frozenset(range(len(names) + 2)))
