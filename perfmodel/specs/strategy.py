"""How a job is spread over the devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from perfmodel.origin import Integer, KeepOrigin, Text
from perfmodel.specs.common import Group
from perfmodel.units import Seconds
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

Degree = Annotated[Integer, Field(ge=1)]

Recompute = Annotated[Literal["none", "selective", "full"], KeepOrigin]
Attention = Annotated[Literal["unfused", "flash", "flash-2", "flash-1", "cudnn"], KeepOrigin]
Grain = Literal["primitive", "separate", "chains", "merged"]
Schedule = Annotated[Literal["1f1b", "gpipe"], KeepOrigin]
Overlap = Literal["none", "backward"]
ORDER = ("tp", "cp", "ep", "dp", "pp")
"""Degrees of parallelism in the order in which ranks are numbered, innermost first."""
MapLayout = Annotated[Literal["channels-first", "channels-last"], KeepOrigin]
BatchNorm = Annotated[Literal["persistent", "streaming"], KeepOrigin]


class Framework(Group):
    """The software that runs the job; its `error` is the median over calibration rows of the studies that ran it."""

    name: Text
    dispatch: Seconds | None = None
    """Of the host, to launch one kernel or collective; None takes it to be fast enough, as with compiled graphs."""


class Strategy(Spec):
    """One point of the product of all axes; what is left out takes the default of the field."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: Text = "custom"
    description: str = ""
    sources: dict[str, str] = Field(default_factory=dict)

    framework: Framework | None = None
    """None leaves the host out, and makes a prediction less sure."""

    devices: Degree | None = None
    """Devices of the job; default tp x pp x cp x dp."""
    tp: Degree = 1
    """Tensor parallel: each layer split over tp devices."""
    pp: Degree = 1
    """Pipeline parallel: the layers cut into pp stages."""
    vpp: Degree = 1
    """Virtual stages (model chunks) on each pipeline stage; above 1 the schedule is interleaved."""
    cp: Degree = 1
    """Context parallel: each sequence cut into cp parts."""
    dp: Degree | None = None
    """Data parallel replicas; default devices / (tp x pp x cp)."""
    ep: Degree = 1
    """Expert parallel, inside dp: the experts spread over ep devices."""
    order: Text = "-".join(ORDER)
    """How ranks are numbered, innermost degree first: the degrees that come first have near ranks. Megatron-LM's option
    is tp-cp-ep-pp-dp."""
    sequence_parallel: bool = False
    """Split norms, dropout and residuals along the sequence over the tp devices."""
    zero: Annotated[Integer, Field(ge=0, le=3)] = 0
    """ZeRO stage: 1 shards optimiser states, 2 also gradients, 3 also parameters, over the replicas."""
    shard_group: Degree | None = None
    """Replicas over which ZeRO shards; default all of them."""
    microbatch: Degree = 1
    """Samples that a replica works on at a time."""
    recompute: Recompute = "none"
    """Activations recomputed in the backward pass: none, selective (the attention core), full (each layer)."""
    attention: Attention = "flash"
    """unfused materialises the scores in memory; flash never does, flash-2, flash-1 and cudnn by the
    kernels of this name, where the device has better."""
    elementwise: Annotated[Grain, KeepOrigin] = "merged"
    """How much one kernel does. primitive: one operation of the code, several for each norm, gelu and dropout, as in graphs of
    TensorFlow; separate: one layer, as in eager PyTorch; chains: neighbours up to the next norm or softmax, as XLA fuses;
    merged: also dropout with the residual sum, scale and mask with softmax, rectifiers and sums with the norm before."""
    optimizer: Annotated[Literal["fused", "separate", "apex"], KeepOrigin] = "fused"
    """Whether the optimiser is one kernel, or each of its operations one; apex fuses that of mixed precision alone."""
    layout: MapLayout = "channels-first"
    """Order of the maps of convolutional networks in memory. Tensor cores want channels last; in half precision cuDNN
    copies maps that lie otherwise before each convolution."""
    batch_norm: BatchNorm = "persistent"
    """Of half-precision maps with channels last: `persistent` keeps a map on the chip between its statistics and its
    normalisation, as cuDNN can; `streaming` reads it again, as compilers' own reductions do."""
    schedule: Schedule = "1f1b"
    """Order of forward and backward passes in the pipeline."""
    sync: Literal["all-reduce"] = "all-reduce"
    """How replicas agree on their gradients."""
    gradient_overlap: Overlap = "backward"
    """Whether gradients travel while the last microbatch's backward pass still runs."""
    weight_overlap: Annotated[Literal["none", "passes"], KeepOrigin] = "passes"
    """Whether what ZeRO 3 gathers and scatters for every pass travels under the passes."""
    tensor_overlap: Overlap = "backward"
    """Whether tensor-parallel messages of the backward pass travel beside the weight gradients."""
    gradient_precision: Literal["fp32", "same"] = "fp32"
    """Gradients accumulate and travel in fp32, or in the precision of the weights."""
    fused_accumulation: bool = True
    """The product that makes a weight gradient adds it to the sum itself."""
    scatter_gather: bool = True
    """Pipeline neighbours on different hosts exchange 1/tp of an activation each, then gather it locally."""

    def faults(self) -> Iterator[Fault]:
        """A framework whose source the file does not list, and an order that is none."""
        yield from _order_faults(self.order)
        if self.framework and self.framework.source not in self.sources:
            yield Fault("framework.source", f"{self.framework.source!r} is no key of 'sources'", self.framework.source)


def _order_faults(order: Text) -> Iterator[Fault]:
    names = str(order).split("-")
    if sorted(names) == sorted(ORDER):
        return
    unknown, missing = [n for n in names if n not in ORDER], [n for n in ORDER if n not in names]
    twice = sorted({n for n in names if n in ORDER and names.count(n) > 1})
    wrong = [("does not know", unknown), ("lacks", missing), ("repeats", twice)]
    what = ", ".join(f"{verb} {' and '.join(map(repr, which))}" for verb, which in wrong if which)
    message = f"{str(order)!r} {what}; write each of {', '.join(ORDER)} once, innermost first, as {'-'.join(ORDER)}"
    yield Fault("order", message, order)
