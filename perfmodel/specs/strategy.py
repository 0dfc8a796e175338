"""How a job is spread over the devices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from perfmodel.origin import Fraction, KeepOrigin, Text
from perfmodel.specs.allocation import USUAL, Allocation
from perfmodel.specs.common import OPTIONS, Degree, Group
from perfmodel.specs.input_pipeline import InputPipeline
from perfmodel.specs.offload import STAYS, Offload
from perfmodel.specs.servers import Servers, server_faults
from perfmodel.specs.sharding import Sharding, Zero, sharding_of
from perfmodel.specs.tables import WHOLE, TableSharding
from perfmodel.specs.weight_loop import WeightLoop
from perfmodel.units import Bytes, Seconds
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

Recompute = Annotated[Literal["none", "selective", "full"], KeepOrigin]
Attention = Annotated[Literal["unfused", "flash", "flash-2", "flash-1", "flash-triton", "cudnn"], KeepOrigin]
Grain = Literal["primitive", "composed", "separate", "chains", "merged"]
Schedule = Annotated[
    Literal[
        "1f1b", "gpipe", "breadth-first", "zero-bubble-h1", "zero-bubble-h2", "zero-bubble-v", "dual-pipe", "pipedream",
        "pipedream-2bw", "decoupled-backward", "3f1b",
    ],
    KeepOrigin,
]  # fmt: skip
Sync = Literal["all-reduce", "parameter-server", "peer-to-peer"]
Overlap = Literal["none", "backward"]
Algorithm = Literal[
    "fastest", "ring", "tree", "halving-doubling", "direct", "chained-tree", "hierarchical", "in-network"
]
ORDER = ("tp", "cp", "ep", "dp", "pp")
"""Degrees of parallelism in the order in which ranks are numbered, innermost first."""
Context = Annotated[Literal["all-gather", "ring", "gathered-ring", "ulysses", "ulysses-ring"], KeepOrigin]
Dispatcher = Annotated[Literal["all-to-all", "deduplicated", "all-gather"], KeepOrigin]
Permutation = Annotated[Literal["fused", "indexed", "one-hot"], KeepOrigin]
LossKernels = Annotated[Literal["softmax", "separate", "fused", "in-place"], KeepOrigin]
ExpertKernels = Annotated[Literal["grouped", "each"], KeepOrigin]


def _stage_layers(value: str) -> str:
    if value not in {"equal", "last-fewer", "ends-fewer"} and not re.fullmatch(r"\d+(-\d+)+", value):
        raise ValueError("must be 'equal', 'last-fewer' or 'ends-fewer', or layers of each chunk as in 19-21-21-19")
    return value


StageLayers = Annotated[Text, AfterValidator(_stage_layers)]
MODULES = frozenset({"norms", "activations", "latent", "core", "output", "mlp", "gate", "heads"})
"""Parts of a layer that may be recomputed by name."""
MapLayout = Annotated[Literal["channels-first", "channels-last"], KeepOrigin]
BatchNorm = Annotated[Literal["persistent", "streaming"], KeepOrigin]


class Framework(Group):
    """The software that runs the job; its `error` is the median over calibration rows of the studies that ran it."""

    name: Text
    error_80: Annotated[Fraction, Field(gt=0)] | None = None
    """Relative error that 80 % of those rows stay within, in logarithms: what its predictions' interval rests on."""
    dispatch: Seconds | None = None
    """Of the host, to launch one kernel or collective; None takes it to be fast enough, as with compiled graphs."""
    loop: Seconds | None = None
    """Of the host, to launch each kernel but the first of those that one call of a library launches in a loop, as the products of one expert
    after another; None takes as long as `dispatch`."""
    cycle: Seconds | None = None
    """Between two looks of a thread for collectives that are ready to start, as Horovod has; None starts them at once."""


class Strategy(Spec):
    """One point of the product of all axes; what is left out takes the default of the field."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: Text = "custom"
    description: str = ""
    sources: dict[str, str] = Field(default_factory=dict)

    framework: Framework | None = None
    """None leaves the host out, and makes a prediction less sure."""
    allocation: Allocation | None = None
    """What the software allocates beside states and activations; None is that of Megatron-Core, without a workspace."""
    weight_loop: WeightLoop | None = None
    """What the script does tensor by tensor once gradients are summed; None is nothing beside the optimiser."""
    input: InputPipeline | None = None
    """How hosts prepare samples; None takes them to be ready, as synthetic ones are."""

    devices: Degree | None = None
    """Devices of the job; default tp x pp x cp x dp."""
    tp: Degree = 1
    """Tensor parallel: each layer split over tp devices."""
    pp: Degree = 1
    """Pipeline parallel: the layers cut into pp stages."""
    vpp: Degree = 1
    """Virtual stages (model chunks) on each pipeline stage; above 1 the schedule is interleaved."""
    stage_layers: StageLayers = "equal"
    """What happens to layers that do not divide by the chunks: refused (equal); the last chunk has fewer (last-fewer); or the
    first and the last do, as where embedding and head count as layers (ends-fewer). Or the layers of each chunk along the
    model, as in 19-21-21-19."""
    cp: Degree = 1
    """Context parallel: each sequence cut into cp parts."""
    context: Context = "all-gather"
    """How attention sees the whole sequence: keys and values gathered; passed around a ring behind the attention of the block
    before; gathered behind the first block of such a ring, whose gradients alone go around (PyTorch); tokens exchanged for heads
    (DeepSpeed Ulysses); or this among near ranks, and a ring of such groups."""
    context_overlap: Annotated[Literal["none", "blocks"], KeepOrigin] = "blocks"
    """Whether the messages of rings travel behind blocks of attention; programs of torch.compile wait for each where they start it."""
    shared_heads: Annotated[Literal["read", "copied"], KeepOrigin] = "read"
    """Heads of keys and values that several heads of queries share: read by each in the kernel of attention, or copied to each before it,
    as code does that was written for kernels without groups (repeat_kv). Context parallelism then exchanges the copies."""
    ulysses_degree: Degree | None = None
    """Near ranks that exchange tokens for heads under `context: ulysses-ring`; the other cp / ulysses_degree form rings."""
    dp: Degree | None = None
    """Data parallel replicas; default devices / (tp x pp x cp)."""
    ep: Degree = 1
    """Expert parallel: the experts of each layer spread over ep groups of devices of one pipeline stage."""
    etp: Degree | None = None
    """Expert tensor parallel: each expert split over etp devices; default tp."""
    dispatcher: Dispatcher = "all-to-all"
    """How tokens reach their experts: a copy for each expert; one for each rank that has some of them (deduplicated, as
    DeepEP and HybridEP do); or all tokens to all ranks."""
    expert_kernels: ExpertKernels = "grouped"
    """Whether one launch computes the products of all experts of a device, which share its waves, or each expert has its own, one
    after another, as in Megatron-Core; those cost the host too, where it binds."""
    launched: Annotated[Literal["all", "experts"], KeepOrigin] = "all"
    """What the host launches kernel by kernel: all, or only what the graphs of a mixture cannot hold (CUDA graphs of attention and
    router): tokens on their way and experts, whose numbers of tokens change."""
    permutation: Permutation = "fused"
    """How tokens are put in the order of their experts and back: by kernels that copy whole rows and weigh them on the way, as
    in Transformer Engine and DeepEP (fused), or by a framework's general gather and scatter-add (indexed), or by products
    with masks of tokens and slots (one-hot), as GShard and, with a capacity, MaxText do."""
    expert_overlap: Annotated[Literal["none", "passes"], KeepOrigin] = "none"
    """Whether tokens travel beside the pass of another microbatch."""
    order: Text = "-".join(ORDER)
    """How ranks are numbered, innermost degree first: the degrees that come first have near ranks. Megatron-LM's option
    is tp-cp-ep-pp-dp."""
    sequence_parallel: bool = False
    """Split norms, dropout and residuals along the sequence over the tp devices."""
    zero: Zero = 0
    """ZeRO stage: 1 shards optimiser states, 2 also gradients, 3 also parameters, over the shard group. Or a letter each for
    parameters, gradients and optimiser states (PaRO): N for whole, I for spread over the shard group, G over all replicas."""
    shard_group: Degree | None = None
    """Replicas over which ZeRO shards; default all of them."""
    offload: Offload | None = None
    """What leaves the devices for their host's memory or drives."""
    tables: TableSharding | None = None
    """How embedding tables are spread, of recommenders; default whole tables to each rank."""
    weight_gather: Annotated[Literal["flat", "two-stage"], KeepOrigin] = "flat"
    """Sharded weights are gathered by all ranks of a group at once, or between hosts first and then inside them (MiCS)."""
    weight_unit: Annotated[Literal["layer", "product"], KeepOrigin] = "layer"
    """What is gathered at once where parameters are spread: a layer, or the weights of one product, as in DeepSpeed, which gathers
    module by module."""
    part_copy: Annotated[Seconds, KeepOrigin] | None = None
    """Of the host, to copy the part of one rank, where what is gathered and scattered are tensors in a list, one for each rank, and each
    parameter travels alone: PyTorch copies them one by one out of the flat buffer that travels, or into it. None takes flat tensors."""
    microbatch: Degree = 1
    """Samples that a replica works on at a time."""
    recompute: Recompute = "none"
    """Activations recomputed in the backward pass: none, selective (the attention core), full (each layer)."""
    recompute_modules: Text = ""
    """Further parts of each layer that are recomputed, joined by `+`: norms, activations, latent (the projections of latent
    attention that go up), core (of attention), output (its projection), mlp (the products before the activation), gate (the second of
    two), heads (copies of shared heads). Empty recomputes none of them."""
    attention: Attention = "flash"
    """unfused materialises the scores in memory; flash never does, flash-2, flash-1, flash-triton (the first, in Triton) and
    cudnn by the kernels of this name, where the device has better."""
    elementwise: Annotated[Grain, KeepOrigin] = "merged"
    """How much one kernel does. primitive: one operation of the code, several for each norm, gelu and dropout, as in graphs of
    TensorFlow; composed: one operation of root-mean-square norms, rotary positions and gated activations, as models are
    written for eager PyTorch, whose other layers are one kernel; separate: one layer; chains: neighbours up to the next norm or softmax, as XLA fuses;
    merged: also dropout with the residual sum, scale and mask with softmax, rectifiers and sums with the norm before."""
    loss: LossKernels = "softmax"
    """Softmax and cross-entropy of a vocabulary: by PyTorch's softmax on an fp32 copy of the logits; separate, a kernel for each step of it,
    as in Megatron-LM; fused in one kernel that reads the logits as they are, as FlashAttention's and those of compilers; or in-place,
    likewise, and their gradient takes their place, as in Transformer Engine."""
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
    sync: Annotated[Sync, KeepOrigin] = "all-reduce"
    """How replicas agree on their gradients: among themselves by all-reduce, through servers, or each with every other."""
    collective: Annotated[Algorithm, KeepOrigin] = "fastest"
    """Algorithm of the all-reduce among replicas: the one that the library would take, or a fixed one."""
    servers: Servers | None = None
    """Of the parameter-server protocol; other protocols have none."""
    gradient_overlap: Overlap = "backward"
    """Whether gradients travel while the last microbatch's backward pass still runs."""
    weight_overlap: Annotated[Literal["none", "passes"], KeepOrigin] = "passes"
    """Whether what ZeRO 3 gathers and scatters for every pass travels under the passes."""
    weight_regather: Annotated[bool, KeepOrigin] = False
    """Whether weights that were gathered to recompute a layer are dropped, and gathered once more for its gradients."""
    pipeline_overlap: Annotated[Literal["none", "chunks"], KeepOrigin] = "none"
    """Sends between stages: `chunks` with several chunks on a stage beside the passes, but for those that fill and drain the pipeline."""
    tensor_overlap: Annotated[Literal["none", "backward", "passes"], KeepOrigin] = "backward"
    """Whether tensor-parallel messages of the backward pass travel beside the products that do not wait for them; with
    `passes` gathers and scatters of both passes also travel piece by piece beside the product that takes or makes them."""
    gradient_precision: Literal["fp32", "same"] = "fp32"
    """Gradients accumulate and travel in fp32, or in the precision of the weights."""
    fused_accumulation: bool = True
    """The product that makes a weight gradient adds it to the sum itself."""
    gradient_buckets: Annotated[Literal["views", "copies"], KeepOrigin] = "views"
    """Whether gradients lie in the buckets that replicas reduce, or are copied into them and back, as PyTorch's
    DistributedDataParallel does unless told gradient_as_bucket_view."""
    gradient_bucket: Annotated[Bytes, KeepOrigin] | None = None
    """Size of the pieces in which replicas reduce gradients, after a first of 1 MiB; the last has no pass left that hides it.
    PyTorch's DistributedDataParallel takes 25 MiB. None takes them to be small."""
    scatter_gather: bool = True
    """Pipeline neighbours on different hosts exchange 1/tp of an activation each, then gather it locally."""

    def faults(self) -> Iterator[Fault]:
        """A framework whose source the file does not list, and an order that is none."""
        yield from order_faults(self.order)
        for unknown in sorted(self.modules - MODULES):
            message = f"knows no {unknown!r}; join some of {', '.join(sorted(MODULES))} with +"
            yield Fault("recompute_modules", message, self.recompute_modules)
        if self.modules and self.recompute == "full":
            message = "full recomputes all of each layer already; leave it out, or take recompute none"
            yield Fault("recompute_modules", message, self.recompute_modules)
        for name in ("framework", "allocation", "weight_loop", "input"):
            group: Group | None = getattr(self, name)
            if group and group.source not in {*self.sources, OPTIONS}:
                yield Fault(f"{name}.source", f"{group.source!r} is no key of 'sources'", group.source)
        if self.sync != "all-reduce" and self.zero:
            yield Fault(
                "zero", f"{self.sync} keeps whole replicas; leave zero at 0, or take sync all-reduce", self.zero
            )
        yield from self._context_faults()
        yield from self.keeps_off.faults()
        yield from self.spreads_tables.faults()
        if self.servers and self.sync != "parameter-server":
            message = f"{self.sync} has no servers; take sync parameter-server, or leave servers out"
            yield Fault("servers", message, self.servers.count)
        elif self.servers:
            yield from server_faults(self.servers)

    def _context_faults(self) -> Iterator[Fault]:
        """Only one form of context parallelism has a degree of its own, and needs it."""
        if self.context == "ulysses-ring" and self.ulysses_degree is None:
            message = "ulysses-ring needs ulysses_degree, the near ranks that exchange tokens for heads"
            yield Fault("context", message, self.context)
        if self.context != "ulysses-ring" and self.ulysses_degree is not None:
            message = f"{self.context} has no such degree; take context ulysses-ring, or leave ulysses_degree out"
            yield Fault("ulysses_degree", message, self.ulysses_degree)

    @property
    def sharding(self) -> Sharding:
        """How far each state is spread over the replicas."""
        return sharding_of(self.zero)

    @property
    def modules(self) -> frozenset[str]:
        """Parts of each layer that are recomputed, beside those of `recompute`."""
        return frozenset(str(self.recompute_modules).split("+")) - {""}

    @property
    def allocates(self) -> Allocation:
        """What the software allocates, or the usual."""
        return self.allocation or USUAL

    @property
    def keeps_off(self) -> Offload:
        """What is kept off the devices, or nothing."""
        return self.offload or STAYS

    @property
    def spreads_tables(self) -> TableSharding:
        """How embedding tables are spread, or the default."""
        return self.tables or WHOLE

    @property
    def keeper(self) -> Servers:
        """The parameter servers, or those of the defaults."""
        return self.servers or Servers()


def order_faults(order: Text) -> Iterator[Fault]:
    """What is wrong with an order of ranks."""
    names = str(order).split("-")
    if sorted(names) == sorted(ORDER):
        return
    unknown, missing = [n for n in names if n not in ORDER], [n for n in ORDER if n not in names]
    twice = sorted({n for n in names if n in ORDER and names.count(n) > 1})
    wrong = [("does not know", unknown), ("lacks", missing), ("repeats", twice)]
    what = ", ".join(f"{verb} {' and '.join(map(repr, which))}" for verb, which in wrong if which)
    message = f"{str(order)!r} {what}; write each of {', '.join(ORDER)} once, innermost first, as {'-'.join(ORDER)}"
    yield Fault("order", message, order)
