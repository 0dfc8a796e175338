"""What a check of a system may ask for, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.cost.communication import exchange
from perfmodel.formulas import idle, mitigation, order_statistics, parameter_server, uneven
from perfmodel.job import load_job
from perfmodel.library import find
from perfmodel.parallel import Group, Message
from perfmodel.prediction import Prediction, predict
from perfmodel.schedule import SCHEDULES
from perfmodel.schedule.simulate import Times
from perfmodel.timeline import duration
from perfmodel.variation.apply import vary
from perfmodel.variation.asked import lengths_of
from perfmodel.variation.balance import proportional_batch, slowdown, split
from perfmodel.variation.bursts import burst, layers_of
from perfmodel.variation.lengths import Lengths
from perfmodel.variation.mitigation import best_gradient_code
from perfmodel.variation.packing import balanced, context_degrees, in_turn, pack, waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfmodel.parallel.messages import Collective

    Array = NDArray[np.float64]


def step(*, workload: str, hardware: str, metric: str = "step_time", strategy: str | None = None, stragglers: str | None = None,
         lengths: str | None = None, sets: dict[str, Any] | None = None, **settings: Any) -> float:  # fmt: skip
    """One number of a prediction.

    The metric is step_time, samples_per_second, tokens_per_second, memory_peak, model_flops (per device and second), or the name of
    a kind of term, for its exposed time.
    """
    job = load_job(workload, hardware, strategy, settings, sets)
    made = predict(job.workload, job.hardware, job.strategy)
    if stragglers is not None or lengths is not None:
        delays = None if stragglers is None else find("variations", stragglers)
        made = vary(made, delays, lengths=None if lengths is None else lengths_of(lengths))
    return _metric(made, metric)


def _metric(made: Prediction, metric: str) -> float:
    if metric == "model_flops":
        return made.flops() / made.step_time / made.devices
    if metric in {"step_time", "samples_per_second", "tokens_per_second", "memory_peak"}:
        return float(getattr(made, metric))
    return float(made.kinds[metric][1])


def pipeline_spread(*, stragglers: str, **job: Any) -> float:
    """Time of the longest of unequal pipelines over that of the shortest."""
    loaded = load_job(job.pop("workload"), job.pop("hardware"), job.pop("strategy", None), job)
    made = vary(predict(loaded.workload, loaded.hardware, loaded.strategy), find("variations", stragglers)).pipelines
    return max(made.times) / min(made.times) if made else 1.0


def schedule_time(*, schedule: str, stages: int, forward: float, backward: float, microbatches: int = 64) -> float:
    """Of one microbatch in a long run of them over equal stages, by the exact simulation; half of backward goes into weights.

    Forward and backward are those of the whole model.
    """
    half = [backward / 2 / stages] * stages
    made = SCHEDULES[schedule].step(stages, 1, microbatches, Times([forward / stages] * stages, half, half))  # type: ignore[index]
    return made / microbatches


def machine(*, hardware: str, path: str) -> float:
    """A value of a hardware file, as device.memory.bandwidth."""
    value = find("hardware", hardware)
    for key in path.split("."):
        value = value[int(key)] if key.isdecimal() else value[key] if isinstance(value, dict) else getattr(value, key)
    return float(value)


def bus_bandwidth(*, hardware: str, ranks: int, size: float) -> float:
    """Of an all-reduce, as nccl-tests count it: what each rank sends over the time."""
    message = Message("", "all-reduce", size, Group(ranks, 1))
    return float(2 * (ranks - 1) / ranks * size / duration(exchange(message, find("hardware", hardware).network, "")))


def collective_time(*, hardware: str, collective: Collective, ranks: int, size: float) -> float:
    """Of one collective."""
    return float(
        duration(exchange(Message("", collective, size, Group(ranks, 1)), find("hardware", hardware).network, ""))
    )


def malleus(*, rates: Sequence[Sequence[float]], layers: int, microbatches: int) -> list[int]:
    """Layers of the stages of each pipeline, then the microbatches of the pipelines."""
    cut = [split(layers, pipeline) for pipeline in rates]
    slots = [max(n * y for n, y in zip(part, pipeline, strict=True)) for part, pipeline in zip(cut, rates, strict=True)]
    return [*(n for part in cut for n in part), *split(microbatches, slots)]


def slowest(*, total: int, costs: Sequence[float]) -> float:
    """Time of the longest place in the best split."""
    return max(n * cost for n, cost in zip(split(total, costs), costs, strict=True))


def batch_gain(*, total: int, speeds: Sequence[float]) -> float:
    """Even batches over proportional ones: how much faster a step gets."""
    even = max(n / v for n, v in zip(split(total, [1.0] * len(speeds)), speeds, strict=True))
    return even / max(n / v for n, v in zip(proportional_batch(total, speeds), speeds, strict=True)) - 1


def burst_gain(*, workload: str, hardware: str, batch: int, devices: int, amplification: float) -> float:
    """Work of a cluster with burst parallel plans over that of data parallelism."""
    wide = {"training.precision": ("tf32", "precision")}
    choices = [2**i for i in range(int(np.log2(devices)) + 1)]
    layers = layers_of(find("workloads", workload, wide), find("hardware", hardware), batch, choices)
    plan = burst(layers, choices, amplification=amplification, exempt=300e-6)
    alone, spread = (sum(layer.times[at] + layer.syncs[at] for layer in layers) for at in (0, -1))
    return plan.cluster_gain(devices, alone=alone, spread=spread)


def _drawn(median: float, sigma: float, count: int, most: float = np.inf) -> Array:
    return Lengths.lognormal(median, sigma, most).draw(count, seed=0)


def padding_cut(*, median: float, sigma: float, count: int, most: float) -> float:
    """Padding to the longest sequence over that of packed rows, of lognormal lengths."""
    lengths = _drawn(median, sigma, count, most)
    packed = pack(lengths, float(lengths.max()))
    return float((lengths.size * lengths.max() - lengths.sum()) / packed.padding)


def packed_tokens(*, median: float, sigma: float, count: int, most: float) -> float:
    """Tokens in packed rows over those of the sequences."""
    lengths = _drawn(median, sigma, count, most)
    return pack(lengths, float(lengths.max())).tokens / float(lengths.sum())


def waiting_cut(*, median: float, sigma: float, ranks: int, batch: int, quadratic: float, most: float) -> float:
    """Share of the waiting between ranks that assignment by cost takes away, of lognormal lengths."""
    lengths = _drawn(median, sigma, ranks * batch, most)
    costs = np.asarray(uneven.sequence_time(length=lengths, linear=1.0, quadratic=quadratic))
    return 1 - waiting(costs, balanced(costs, ranks)) / waiting(costs, in_turn(len(costs), ranks))


def context_ranks(*, median: float, sigma: float, count: int, capacity: float, most: float) -> float:
    """Ranks that all sequences need with static context parallelism over those that each needs of its own."""
    degrees = context_degrees(_drawn(median, sigma, count, most), capacity)
    return float(len(degrees) * degrees.max() / degrees.sum())


def gather_cut(*, ranks: int, node: int) -> float:
    """Share of the traffic between nodes that a two-level all-gather saves: each node's devices fetch a part each."""
    return 1 - (ranks - node) / (ranks - 1)


def least_servers(*, size: float, workers: int, bandwidth: float, time: float) -> float:
    """Servers whose ports carry push and pull of all workers in the time of computing."""
    return float(np.ceil(2 * size * workers / (bandwidth * time)))


QUANTITIES: dict[str, Callable[..., Any]] = {
    "step": step, "machine": machine, "bus-bandwidth": bus_bandwidth, "collective-time": collective_time,
    "bubble-share": idle.bubble_share, "exponential-kth": order_statistics.exponential_kth,
    "gradient-code": mitigation.coded_gradient_time, "best-gradient-code": best_gradient_code,
    "replicated": mitigation.replicated_time, "balance-gain": mitigation.balance_gain, "batch-gain": batch_gain,
    "malleus": malleus, "slowest": slowest, "slowdown": slowdown, "pipeline-spread": pipeline_spread, "schedule-time": schedule_time, "sliced": uneven.sliced_time,
    "rehearsed": uneven.rehearsed_time, "decoupled": uneven.decoupled_time, "useful-share": uneven.useful_share,
    "burst-gain": burst_gain, "padding-cut": padding_cut, "packed-tokens": packed_tokens, "waiting-cut": waiting_cut,
    "context-ranks": context_ranks, "gather-cut": gather_cut, "least-servers": least_servers,
    "server-transfer": parameter_server.server_transfer,
}  # fmt: skip
"""Formulas and plans of the library, and numbers made of predictions."""
