"""Classes of replicas that differ for good: by their speed, or by the device that they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from perfmodel.origin import Fraction, KeepOrigin, Text
from perfmodel.specs.common import Size
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator


class Machines(Spec):
    """Classes of replicas, and how the work follows their speed."""

    speeds: tuple[Annotated[Fraction, Field(gt=0)], ...] = ()
    """Of computing, over that of the hardware file."""
    devices: tuple[Text, ...] = ()
    """Hardware files whose devices the classes have, on the network of the job; their speeds are those of predictions."""
    counts: tuple[Size, ...] = ()
    """Replicas of each class, or their ratio; default as many of each."""
    balance: Annotated[Literal["none", "batch", "threads"], KeepOrigin] = "none"
    """none: each replica works on as many samples. batch: in proportion to its speed. threads: a whole number of logical workers each."""
    threads: Size | None = None
    """Logical workers of the job, where they are balanced."""

    @property
    def classes(self) -> int:
        """How many."""
        return len(self.speeds) or len(self.devices)


def machine_faults(machines: Machines) -> Iterator[Fault]:
    """Classes that are given twice or not at all, counts of others, logical workers that nothing balances."""
    threads, path = machines.threads, "stragglers.machines"
    if bool(machines.speeds) == bool(machines.devices):
        yield Fault(path, "needs 'speeds' or 'devices', one of the two")
    elif machines.counts and len(machines.counts) != machines.classes:
        yield Fault(f"{path}.counts", f"{len(machines.counts)} counts for {machines.classes} classes")
    if threads is None and machines.balance == "threads":
        yield Fault(f"{path}.balance", "'threads' needs 'threads', the number of logical workers", machines.balance)
    if threads is not None and machines.balance != "threads":
        yield Fault(f"{path}.threads", f"is for balance 'threads', not {str(machines.balance)!r}", threads)
