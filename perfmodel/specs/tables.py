"""Where the embedding tables of a recommender are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from perfmodel.origin import Fraction, Integer, KeepOrigin, origin_of, traced
from perfmodel.specs.common import Share
from perfmodel.units import Bytes
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

Degree = Annotated[Integer, Field(ge=1)]
By = Annotated[Literal["table", "row", "column", "table-row", "hybrid", "replicated"], KeepOrigin]


class TableSharding(Spec):
    """How tables are spread; as a text the way and, after a slash, the ranks of a group: `row`, `table/256`."""

    by: By = "table"
    """Whole tables to each rank; rows of all tables; columns of all; tables to hosts and their rows to the devices of each
    (table-row); rows dealt out one by one, but for those that occur in each rank's batch, which all have (hybrid, as in HugeCTR);
    or all tables on every rank (replicated)."""
    group: Degree | None = None
    """Ranks that hold all tables between them; default all replicas. Groups hold copies of one another (2D sparse
    parallelism, arXiv:2508.03854), and each rank of a copy is next to those that hold the same."""
    period: Degree = 1
    """Steps after which copies agree on their weights, by all-reduce."""
    slice: Annotated[Bytes, KeepOrigin] | None = None
    """Tables that are larger are cut by columns until they are not, before whole pieces go to ranks. None cuts none."""
    even: Annotated[bool, KeepOrigin] = False
    """Tables with more work than the mean of a rank are cut by rows before whole pieces go to ranks, as in HugeCTR's planner;
    each piece then makes a vector of its own, which are added up where they are wanted."""
    copied: Annotated[Bytes, KeepOrigin] | None = None
    """Tables that are not larger are on every rank, which looks them up for its own batch; replicas all-reduce their gradients.
    None copies none."""
    update: Annotated[Literal["fused", "sparse"], KeepOrigin] = "fused"
    """Whether the kernel that makes the gradients of rows changes them, as in FBGEMM and HugeCTR; or gradients of lookups are
    written as a sparse tensor, which further kernels scale and add to the rows, as an optimiser of PyTorch does."""
    memory: Annotated[Literal["device", "cache", "host"], KeepOrigin] = "device"
    """Rows on the device; in the memory of the host, with the popular ones on the device too (cache); or there alone (host)."""
    cached: Share = 0.01
    """Of the rows, those that the cache has room for."""
    hit_rate: Annotated[Fraction, Field(ge=0, le=1)] | None = None
    """Of lookups that find their row in the cache; default by the skew of the tables."""
    overlap: Annotated[Literal["none", "bottom"], KeepOrigin] = "bottom"
    """Whether vectors travel beside the network for numbers and ids beside the batch before, as in DLRM and TorchRec."""

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, data: Any) -> Any:
        if not isinstance(data, str):
            return data
        origin = origin_of(data)
        by, slash, group = data.partition("/")
        size: Any = int(group) if group.isdigit() else group
        found = {"by": by} | ({"group": size} if slash else {})
        return {name: traced(value, origin) for name, value in found.items()} if origin else found

    def __str__(self) -> str:
        """As it may be written."""
        return f"{self.by}/{self.group}" if self.group else str(self.by)

    @property
    def on_device(self) -> float:
        """Share of the tables in the memory of the device."""
        return {"device": 1.0, "cache": float(self.cached), "host": 0.0}[self.memory]

    def faults(self) -> Iterator[Fault]:
        """Settings of what the others rule out."""
        if self.by == "replicated" and self.group is not None:
            yield Fault(
                "tables.group", "replicated tables have no groups; leave it out, or take another way", self.group
            )
        if self.by == "replicated" and self.copied is not None:
            yield Fault(
                "tables.copied", "replicated tables are all copied; leave it out, or take another way", self.copied
            )
        if self.even and self.by not in {"table", "table-row"}:
            message = f"cuts tables before they go to ranks; tables by {self.by} are even already"
            yield Fault("tables.even", message, self.even)
        if self.slice is not None and self.by not in {"table", "table-row"}:
            yield Fault(
                "tables.slice", f"cuts tables before they go to ranks; tables by {self.by} are cut already", self.slice
            )
        if self.hit_rate is not None and self.memory != "cache":
            yield Fault(
                "tables.hit_rate", f"is that of a cache, and memory is {self.memory}; take memory cache", self.hit_rate
            )


WHOLE = TableSharding()
"""What a strategy means that says nothing of tables."""
