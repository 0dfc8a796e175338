"""Which parameter servers a row of a training table means, in the words of its source."""

from __future__ import annotations

import re

SERVED = re.compile(r"parameter.?server|\bPS\b|kvstore dist|distributed_replicated")
PRESETS = (
    (r"wait-free.*\(BytePS\)", "byteps"),
    (r"\(BSP\).*\(BytePS\)", "byteps-after-backward"),
    (r"kvstore dist", "mxnet-dist-sync"),
    (r"distributed_replicated", "tensorflow-distributed"),
    (r"variables on CPU", "tensorflow-ps-cpu"),
    (r"variables on GPU", "tensorflow-ps-gpu"),
)
"""What a strategy is called, and the preset; the first that is found."""
FEWER = {("InceptionV3", 64): 6, ("ResNet-50", 32): 4, ("ResNet-152", 32): 4}
"""Servers of tf_cnn_benchmarks on eight instances, by model and batch of a device, where they are fewer than workers."""


def is_served(strategy: str) -> bool:
    """Whether servers hold the parameters.

    >>> is_served("data-parallel, kvstore dist_device_sync"), is_served("data-parallel replicated")
    (True, False)
    """
    return bool(SERVED.search(strategy))


def server_preset(strategy: str, source: str = "") -> str | None:
    """The preset of a strategy with servers; None where the words fit none.

    >>> server_preset("data-parallel, parameter_server (variables on CPU)")
    'tensorflow-ps-cpu'
    >>> server_preset("data-parallel parameter_server", "tensorpack benchmarks")
    'tensorflow-ps-cpu'
    """
    if source.startswith("tensorpack"):
        return "tensorflow-ps-cpu"  # its README compares with local_parameter_device=cpu
    return next((preset for pattern, preset in PRESETS if re.search(pattern, strategy)), None)


ON_DEVICES = {"strategy.sync": "parameter-server", "strategy.servers.placement": "colocated", "strategy.servers.workers": "devices",
              "strategy.servers.pull": "next-step"}  # fmt: skip
"""Overrides that spread the variables over the devices, where a preset of all-reduce says everything else."""


def server_count(strategy: str, model: str, batch: str, devices: str) -> int | None:
    """Servers that a source counts, where they are not one for each host.

    >>> server_count("distributed_replicated", "ResNet-152", "32", "64")
    4
    """
    if "distributed_replicated" in strategy and devices == "64":
        return FEWER.get((model, int(batch)))
    return None
