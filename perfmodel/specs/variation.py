"""What differs from step to step and from device to device: slow devices and messages, failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from perfmodel.origin import Fraction, Integer, KeepOrigin
from perfmodel.specs.common import Group, Positive, Share, Size, SpecFile
from perfmodel.specs.failures import Failures, failure_faults
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

NotNegative = Annotated[Fraction, Field(ge=0)]
Probability = Annotated[Fraction, Field(ge=0, le=1)]
Owner = Annotated[Literal["device", "node", "step"], KeepOrigin]
Lasting = Annotated[Literal["step", "pass"], KeepOrigin]
SUM_ERROR = 1e-6
"""By which shares that are written with few digits may miss one."""

LEAST_TAIL = 3
"""Of a Pareto distribution, for its third moment to be finite."""


class Part(Spec):
    """One cause of delay: a distribution of the time that something takes over the time predicted for it."""

    per: Owner = "device"
    """Drawn for each device, once for all devices of a node, or once for all devices in a step."""
    lasts: Lasting = "step"
    """`step`: a device is slow for the whole step. `pass`: drawn again for each pass of a microbatch through a layer, after which
    the devices that share the layer wait for one another."""


class Exponential(Part):
    """1 + Exp(mean): many small independent causes, memoryless."""

    kind: Literal["exponential"]
    mean: Positive


class ShiftedExponential(Part):
    """1 + shift + Exp(mean)."""

    kind: Literal["shifted-exponential"]
    shift: NotNegative
    mean: Positive


class Normal(Part):
    """1 + N(0, deviation): noise of both signs."""

    kind: Literal["normal"]
    deviation: Annotated[Fraction, Field(gt=0, le=0.2)]
    """At most a fifth: beyond that times below zero would matter."""


class Lognormal(Part):
    """exp(sigma N(0, 1)): ratios of either sign, a longer tail above."""

    kind: Literal["lognormal"]
    sigma: Annotated[Fraction, Field(gt=0, le=3)]


class Gamma(Part):
    """1 + a gamma-distributed delay, as the sum of `shape` exponential ones."""

    kind: Literal["gamma"]
    mean: Positive
    shape: Annotated[Fraction, Field(gt=0.01, le=1e4)]


class Weibull(Part):
    """1 + a Weibull-distributed delay; `shape` below 1 gives a tail heavier than exponential."""

    kind: Literal["weibull"]
    scale: Positive
    """That 63 % of the delays stay below."""
    shape: Annotated[Fraction, Field(ge=0.1, le=100)]


class Pareto(Part):
    """At least 1, with a power-law tail."""

    kind: Literal["pareto"]
    tail: Annotated[Fraction, Field(gt=1, le=1e4)]
    """Exponent; above 1, else the mean is infinite."""


class Mixture(Part):
    """1, or 1 + slowdown with a probability: some devices are slow."""

    kind: Literal["mixture"]
    slowdown: NotNegative
    probability: Probability


class Empirical(Part):
    """A histogram of measured ratios."""

    kind: Literal["empirical"]
    factors: tuple[Positive, ...] = Field(min_length=1)
    """Time over the time predicted."""
    shares: tuple[NotNegative, ...] = Field(min_length=1)
    """Of each, adding up to 1."""


AnyPart = Annotated[
    Exponential | ShiftedExponential | Normal | Lognormal | Gamma | Weibull | Pareto | Mixture | Empirical,
    Field(discriminator="kind"),
]


class BackupWorkers(Spec):
    """More replicas than are waited for."""

    kind: Literal["backup-workers"]
    backup: Annotated[Integer, Field(ge=0)] | None = None
    """Replicas that nobody waits for; left out, the number that gives most samples per second."""


class Phase(Spec):
    """A part of the training in which as many replicas are waited for."""

    waited: Size
    share: Share
    """Of the steps."""


class FastestK(Spec):
    """The k fastest replicas count, fixed or by phases of the training."""

    kind: Literal["fastest-k"]
    waited: Size | None = None
    """k; left out, the number that gives most samples per second."""
    phases: tuple[Phase, ...] = ()
    """Instead of one k: adaptive."""


class GradientCoding(Spec):
    """Replicas work on more shares of the data than their own, and any n - s of n results give the gradient."""

    kind: Literal["gradient-coding"]
    stragglers: Annotated[Integer, Field(ge=0)] | None = None
    """s, that need not answer; what is left out of the three is chosen for the shortest step."""
    load: Size | None = None
    """d, shares of the data on each replica; at least s + m."""
    reduction: Size | None = None
    """m, by which each message is shorter."""


class Replication(Spec):
    """Each share of the data lies on several replicas; the first to finish it counts."""

    kind: Literal["replication"]
    copies: Size | None = None
    """Left out, the divisor of the replicas that gives the shortest step."""


class DataEncoding(Spec):
    """Encoded data of `redundancy` times the size; the k fastest suffice."""

    kind: Literal["data-encoding"]
    redundancy: Annotated[Fraction, Field(ge=1)]
    waited: Size | None = None
    """k; left out, as many as hold the data once: n / redundancy."""


class PartialResults(Spec):
    """All stop at a deadline and send what they have."""

    kind: Literal["partial-results"]
    deadline: Positive | None = None
    """Over the predicted time of computing; left out, the one that gives most samples per second."""


AnyMitigation = Annotated[
    BackupWorkers | FastestK | GradientCoding | Replication | DataEncoding | PartialResults, Field(discriminator="kind")
]


class Machines(Spec):
    """Classes of replicas that differ for good, and how the work follows their speed."""

    speeds: tuple[Positive, ...] = Field(min_length=1)
    """Of computing, over that of the hardware file; the replicas are spread evenly over the classes."""
    balance: Annotated[Literal["none", "batch", "threads"], KeepOrigin] = "none"
    """none: each replica works on as many samples. batch: in proportion to its speed. threads: a whole number of logical workers each."""
    threads: Size | None = None
    """Logical workers of the job, where they are balanced."""


class Stragglers(Group):
    """Delays of computing and of messages, independent of one another, and what is done about them."""

    machines: Machines | None = None
    """None: all are alike but for the delays."""
    compute: tuple[AnyPart, ...] = ()
    """Their delays add up."""
    communication: tuple[AnyPart, ...] = ()
    mitigation: AnyMitigation | None = None
    """None waits for all."""


class Variation(SpecFile):
    """Stragglers, failures, or both."""

    stragglers: Stragglers | None = None
    failures: Failures | None = None

    def faults(self) -> Iterator[Fault]:
        """Also: histograms that do not add up, mitigations that contradict themselves, failures of nothing."""
        yield from super().faults()
        if not (self.stragglers or self.failures):
            yield Fault("", "needs a section 'stragglers' or 'failures'")
        if self.stragglers:
            for phase in ("compute", "communication"):
                for index, part in enumerate(getattr(self.stragglers, phase)):
                    yield from _part_faults(part, f"stragglers.{phase}.{index}")
            if self.stragglers.machines:
                yield from _machine_faults(self.stragglers.machines)
            yield from _mitigation_faults(self.stragglers.mitigation)
        if self.failures:
            yield from failure_faults(self.failures)


def _part_faults(part: Part, path: str) -> Iterator[Fault]:
    if isinstance(part, Empirical):
        if len(part.factors) != len(part.shares):
            yield Fault(f"{path}.shares", f"{len(part.shares)} shares for {len(part.factors)} factors")
        total = sum(part.shares)
        if abs(total - 1) > SUM_ERROR:
            yield Fault(f"{path}.shares", f"add up to {total:.6g}, not to 1; divide each by {total:.6g}")
    if part.lasts == "pass" and isinstance(part, Pareto) and part.tail <= LEAST_TAIL:
        yield Fault(
            f"{path}.tail",
            f"must be above {LEAST_TAIL} where a delay lasts a pass, so that sums have a skewness",
            part.tail,
        )
    if part.lasts == "pass" and part.per != "device":
        yield Fault(f"{path}.lasts", f"'pass' is for delays per device, not per {part.per}", part.lasts)


def _machine_faults(machines: Machines) -> Iterator[Fault]:
    threads, path = machines.threads, "stragglers.machines.threads"
    if threads is None and machines.balance == "threads":
        yield Fault(
            "stragglers.machines.balance", "'threads' needs 'threads', the number of logical workers", machines.balance
        )
    if threads is not None and machines.balance != "threads":
        yield Fault(path, f"is for balance 'threads', not {str(machines.balance)!r}", threads)


def _mitigation_faults(mitigation: object) -> Iterator[Fault]:
    path = "stragglers.mitigation"
    if isinstance(mitigation, FastestK) and mitigation.phases:
        if mitigation.waited is not None:
            yield Fault(
                f"{path}.waited", "stands beside phases, which say it for each; leave one out", mitigation.waited
            )
        total = sum(phase.share for phase in mitigation.phases)
        if abs(total - 1) > SUM_ERROR:
            yield Fault(f"{path}.phases", f"shares add up to {total:.6g}, not to 1")
    if isinstance(mitigation, GradientCoding):
        s, d, m = mitigation.stragglers or 0, mitigation.load, mitigation.reduction or 1
        if d is not None and d < s + m:
            yield Fault(f"{path}.load", f"{d} shares on each replica cannot make up for {s} stragglers with messages "
                        f"{m} times shorter; at least {s + m}", d)  # fmt: skip
