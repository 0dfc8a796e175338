"""What must hold between embedding tables and the ranks that they are spread over, which may be numbers or columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.parallel.near import divisors
from perfmodel.specs.recommender import Recommender
from perfmodel.specs.tables import WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfmodel.specs import Hardware, Workload
    from perfmodel.units import Count

    Fault = tuple[str, Any, Callable[[], str], Any]
    """The field that a rule blames, where it is broken, what to tell of it, and the value that it blames."""


def table_rules(workload: Workload, hardware: Hardware, strategy: Any, replicas: Count) -> Iterator[Fault]:
    """Rules for the tables of a strategy, or of anything with degrees of the same names that are columns."""
    model, given = workload.model, strategy.tables
    if not isinstance(model, Recommender):
        told = f"{workload.name} has no embedding tables to spread; leave it out"
        yield "tables", given is not None, told.__str__, given and given.by
        return
    sharding = given or WHOLE
    group = sharding.group or 1
    yield (
        "tables.group", np.asarray(replicas % group != 0),
        lambda: f"{group} does not divide {replicas} replicas; nearest that do: {divisors(int(group), int(replicas))}",
        sharding.group,
    )  # fmt: skip
    ranks = sharding.group or replicas
    if sharding.by == "column":
        widths = sorted({shape.width for shape in model.shapes})
        yield (
            "tables.by", np.any([np.asarray(width % ranks != 0) for width in widths], axis=0),
            lambda: f"{ranks} ranks do not divide vectors of {', '.join(map(str, widths))} numbers; take a smaller group, "
            "or table or row",
            sharding.by,
        )  # fmt: skip
    if strategy.sync != "all-reduce":
        yield (
            "sync", np.asarray(replicas) > 1,
            lambda: f"{strategy.sync} keeps whole replicas, but tables are spread by {sharding.by}; take all-reduce",
            strategy.sync,
        )  # fmt: skip
    if sharding.memory != "device":
        yield (
            "tables.memory", hardware.host.device_link is None,
            lambda: f"{hardware.name} states no link between host and device; give host.device_link, or take memory device",
            sharding.memory,
        )  # fmt: skip
