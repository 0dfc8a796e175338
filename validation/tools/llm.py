"""Tables of LLM training in the shared header: one row each of model, machine, layout and what was measured.

What a framework always does stands in a file of strategies/; what a row prints, in its columns; what a
row's notes say beyond that, in its overrides. A row that the model cannot express is skipped with the reason.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from perfmodel.library import find
from validation.tools.adapters import adapters
from validation.tools.assumed import completed
from validation.tools.cases import Case, Skipped, UnknownMachine, machine
from validation.tools.corrections import CONVENTIONS, MEMORY, corrected
from validation.tools.experts import is_hybrid, is_mixture, mixture_workload, routing_overrides, small_mixture
from validation.tools.fabric import fabric_overrides
from validation.tools.flags import flags, layout
from validation.tools.habits import habits
from validation.tools.offloads import Unstated, offload_of
from validation.tools.overlaps import pipelined
from validation.tools.packing import packed
from validation.tools.shapes import Shape, named
from validation.tools.stages import uneven_stages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfmodel.specs.measurement import Metric

Value = str | int | bool | float

HEADER = frozenset(
    {"source", "model", "family", "layers", "hidden", "heads", "vocab", "seq_len", "hardware", "devices", "tp", "pp", "dp",
     "microbatch", "global_batch", "precision", "framework", "step_time_s", "tflops_convention", "split"}
)  # fmt: skip
"""Columns that tell this kind of table from others."""

FRAMEWORKS: tuple[tuple[str, str], ...] = (
    (r"ZeRO-3|HF Transformers \+ DeepSpeed", "deepspeed-zero-3"),
    (r"Megatron-DeepSpeed|GPT-NeoX", "megatron-deepspeed"),
    (r"Megatron-LM \((commit 6985e58|Jan 2021|2021)|Megatron-LM PTD-P", "megatron-2021"),
    (r"Megatron-LM \((selective|sail-sg)", "megatron-2022"),
    (r"NeMo Megatron 22", "nemo-2022"),
    (r"NeMo|Megatron-Bridge|NVIDIA|\bNGC\b", "nemo"),
    (r"CI golden", "megatron-core-ci"),
    (r"Primus", "primus"),
    (r"Megatron-Core|Megatron-Kwai|FlagScale|Megatron-LM [0-9a-f]{7}", "megatron-core"),
    (r"llm-foundry", "llm-foundry-fsdp"),
    (r"KempnerForge", "kempnerforge"),
    (r"torchtitan|FSDP2", "torchtitan-fsdp2"),
    (r"FSDP|lit-gpt|LitGPT", "fsdp"),
    (r"MaxText|Pax", "maxtext-fsdp"),
    (r"nanotron", "nanotron"),
    (r"PaddlePaddle", "paddlepaddle-hybrid"),
    (r"flash-attention training|DeepSpeed", "data-parallel"),
)
"""Which preset a framework's name means; the first that is found in it."""

MEGATRON = (("2022-01", "megatron-2021"), ("2023-07", "megatron-2022"))
"""Plain Megatron-LM: the preset of all dates before this one; megatron-core since (0.1 was of July 2023)."""

GENERIC = {"gpt": "generic-gpt", "moe-gpt": "generic-gpt", "llama": "generic-llama", "gptrelu2": "generic-nemotron"}
"""The workload whose shape a family overrides."""

PRECISIONS = {"bf16": "bf16", "fp16": "fp16", "fp32": "fp32", "tf32": "tf32", "fp8": "fp8", "fp4": "fp4"}

METRICS: tuple[tuple[str, Metric, str], ...] = (
    ("step_time_s", "step_time", "s"),
    ("samples_per_s", "samples_per_second", "samples/s"),
    ("tokens_per_s_per_device", "tokens_per_second_per_device", "tokens/s"),
    ("tflops_per_device", "model_flops_per_device_per_second", "TFLOP/s"),
    ("mfu", "mfu", "1"),
    ("hfu", "hfu", "1"),
    ("memory_gb_per_device", "peak_memory", "GB"),
)
"""Column, metric and unit."""

FLOP_RATES = frozenset({"model_flops_per_device_per_second", "hardware_flops_per_device_per_second", "mfu", "hfu"})
"""Metrics that hang on how FLOP are counted."""

DERIVED = {
    "step_time_s": r"step time",
    "samples_per_s": r"samples(_per_s|/s)",
    "tokens_per_s_per_device": r"tokens/s",
}
"""How a note names a column that its table derived from another."""

NOTED: tuple[tuple[str, dict[str, Value]], ...] = (
    (r"no grad/param overlap", {"strategy.gradient_overlap": "none"}),
    (r"DDP torch for PP=1", {}),
    (r"overlap-grad-reduce", {"strategy.gradient_overlap": "backward"}),
    (r"async ?TP", {"strategy.tensor_overlap": "backward"}),
    (r"tp-comm-overlap", {"strategy.tensor_overlap": "passes"}),
    (r"no torch\.compile", {"strategy.elementwise": "composed"}),
    (r"Trainy on WhiteFiber", {"strategy.loss": "fused"}),
    (r"cross-entropy fusion", {"strategy.loss": "in-place"}),
    (r"moe-grouped-gemm=True", {"strategy.expert_kernels": "grouped"}),
    (r"(?<!un)tied embeddings(?!\?)", {"workload.model.tied": True}),
    (r"\buntied embeddings", {"workload.model.tied": False}),
    (r"hidden-dropout=0", {"workload.model.dropout": False}),
    (r"cross_entropy_loss_fusion", {"strategy.allocation.logit_copies": 2}),
    (r"defer-embedding-wgrad-compute=True; wgrad-deferral-limit=2", {"strategy.allocation.logit_copies": 2}),
)
"""What notes say of a run beyond its columns; deferred weight gradients of the head keep those of the logits of two microbatches in
16 bits (megatron/core/tensor_parallel/layers.py), a copy and a half each; torchtitan of 2025 compiles its loss, which leaves the
logits and their gradient in 16 bits (components/loss.py at e7c0cae)."""

MODELS: tuple[tuple[str, dict[str, Value]], ...] = ((r"llm-foundry", {"workload.model.dropout": False}),)
"""What a framework does to the models that it trains."""


SCHEDULES = {
    "": "", "1F1B": "", "1F1B-I": "", "1f1b-interleaved": "", "ZB-1p": "zero-bubble-h1", "ZB-2p": "zero-bubble-h2",
}  # fmt: skip
"""Pipeline schedules as tables print them, and ours. ZB-1p and ZB-2p are found by search within the memory of ZB-H1 and ZB-H2."""

MODULES = {
    "layernorm": "norms", "norm": "norms", "moe_act": "activations", "activation_function": "activations",
    "mla_up_proj": "latent", "mlp": "mlp",
}  # fmt: skip
"""Names of Megatron-Core's recompute_modules, and ours."""

ALTERNATE = {"selective (per-op SAC)": "norms+output+gate+activations+heads"}
"""torchtitan's policy by operators: of a layer's seven products (wq wk wv wo w1 w3 w2) every other is executed again, and all that
is no product, attention or collective, as copies of shared heads; keys are left out, since they are made together with queries and
values here."""

JAX = {"core": r"context", "output": r"out_proj|saves dot|save_dot", "mlp": r"mlpwi\b|saves dot|dot_only"}
"""Parts of a layer that a JAX program executes again unless its policy keeps the product of this name."""

RECIPES: tuple[tuple[str, str], ...] = (
    (r"MaxText \(dgxc-benchmarking v24\.11", "custom: query_proj, key_proj, value_proj, out_proj saved"),
    (r"MaxText \(dgxc-benchmarking v25\.02", "save_qkv_proj"),
    (r"Pax .*\b5b", "save_dot_only: saves dots"),
    (r"Pax .*\b175b", "save_qkv_out_proj"),
)
"""What recipes keep, by framework and model, where a table does not print it: maxtext/configure.sh at v24.11.1 and v25.02,
paxml/paxml_mod_configs.py at v24.11.1, of https://github.com/NVIDIA/dgxc-benchmarking."""

UNPROFILED = r"Pax .*H100|MaxText \(JAX/XLA\) H100"
"""JAX on GPUs whose recipe gives XLA's scheduler no profile of the program: paxml/configure.sh at v24.11.1 of dgxc-benchmarking, and
MaxText's configs/a3; maxtext/configure.sh of dgxc-benchmarking profiles first."""

SHARDING_NODES = {r"Pax .*\b5b": 1, r"Pax .*\b175b": 16}
"""Over how many nodes Pax spreads FSDP, the second of DCN_MESH_SHAPE (paxml/configure.sh)."""


FUSED_LOSS = re.compile(r"NeMo (25\.(07|11)|26)|Bridge.*; deepseek")
"""Software, then model, whose recipes fuse the loss: cross_entropy_fusion_impl of NeMo's scripts/performance/helpers.py since June 2025, of
Megatron-Bridge's scripts/performance/utils/helpers.py since v0.2.0, of its DeepSeekModelProvider before. Those before compiled Megatron-LM's
own (impl native), which copies its fresh results back and so moves as much (megatron/core/fusions/fused_cross_entropy.py, note on in-place).
NVIDIA's submissions to MLPerf are taken not to fuse it, as mlperf_lora_llama2_70b.py of NeMo's scripts says."""

DISTRIBUTED_LOSS = 3.5
"""fp32 copies of the logits, beside them, in the loss of a vocabulary that is split: softmax, gradient, exponentials and their sum, when
the logits in 16 bits are gone (torch/distributed/tensor/parallel/loss.py, _nll_loss_and_log_softmax_backward)."""

BINARY = frozenset({"kempnerforge", "nanotron", "torchtitan"})
"""Sources whose "GB" is 1024^3 by their code (KempnerForge, metrics/memory.py; nanotron's log: "Mem Res (GB)"; torchtitan's
max_reserved_gib)."""

MANY = 10
"""Rows of a source from which on what all notes say is not repeated."""


class Unusable(ValueError):  # noqa: N818 - a reason rather than an error
    """A row is no case; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Line:
    """A raw row, its cells read as what they are."""

    cells: Mapping[str, str]

    def text(self, name: str) -> str:
        """A cell; empty where it is missing."""
        value = self.cells.get(name, "").strip()
        return "" if value.lower() == "nan" else value

    def whole(self, name: str) -> int | None:
        """A cell as a whole number; None where it is empty."""
        value = self.text(name)
        return int(float(value)) if value else None

    def needed(self, name: str, words: str) -> int:
        """A cell without which nothing can be predicted."""
        value = self.whole(name)
        if not value:
            raise Unusable(f"{words} not stated")
        return value

    def notes(self, pattern: str) -> re.Match[str] | None:
        """Where the notes match a pattern."""
        return re.search(pattern, self.text("notes"), re.IGNORECASE)

    @property
    def study(self) -> str:
        """The source as a name of files."""
        return re.sub(r"[^a-z0-9.]+", "-", self.text("source").lower()).strip("-") or "table"

    @property
    def run(self) -> str:
        """Framework and model."""
        return f"{self.framework} {self.text('model')}"

    @property
    def framework(self) -> str:
        """The software's name."""
        return self.text("framework")

    @property
    def strategy(self) -> str:
        """Its preset; what the host of a mixture launches is what the CUDA graphs of NeMo leave, and JAX's depends on its scheduler."""
        preset = strategy(self.framework, self.text("date"))
        if preset == "maxtext-fsdp" and re.search(UNPROFILED, f"{self.framework} {self.text('hardware')}"):
            return "jax-gpu"
        if preset != "nemo" or not is_mixture(self) or self.notes("cuda graph full_iteration"):
            return preset
        return "nemo-graphs" if self.notes(r"cuda graph [^;]*attn") else "nemo-eager"

    @property
    def printed_schedule(self) -> str:
        """Of the pipeline, in the table's words; empty where it says none."""
        found = self.notes(r"schedule ((?:ZB|V-|zbv|DualPipe|1F1B)[^\s;,]*)")
        return found.group(1) if found else ""

    @property
    def schedule(self) -> str | None:
        """Ours; empty is the default, None one that the model has not."""
        return SCHEDULES.get(self.printed_schedule)

    @property
    def is_megatron(self) -> bool:
        """Whether Megatron-LM's tokeniser pads the vocabulary."""
        return "Megatron" in self.framework


def rows(raw: Iterator[dict[str, str]]) -> Iterator[Case | Skipped]:
    """The cases of each raw row, or why there is none; ids count the rows of each source."""
    lines = [Line(cells) for cells in raw]
    common = _common_notes(lines)
    count: Counter[str] = Counter()
    for line in lines:
        count[line.study] += 1
        stem = f"{line.study}-{count[line.study]:03d}"
        line = in_chips(_told_in_full(line, stem))  # noqa: PLW2901 - the row as its source has it
        try:
            yield from _cases(line, stem, common[line.study])
        except (Unusable, UnknownMachine) as reason:
            yield Skipped(stem, str(reason))


def in_chips(line: Line) -> Line:
    """Degrees that count the cores of a chip, as devices of the library: tensor-parallel ranks sit side by side on one.

    >>> in_chips(Line({"tp": "8", "notes": "parallel degrees count NeuronCores (2 cores per chip)"})).text("tp")
    '4'
    """
    cores, degree = line.notes(r"degrees count NeuronCores .*?(\d+) cores per chip"), line.whole("tp")
    return Line({**line.cells, "tp": str(degree // int(cores.group(1)))}) if cores and degree else line


def _told_in_full(line: Line, stem: str) -> Line:
    """The row with what its table leaves out or says otherwise."""
    said = flags(line.text("notes"))
    notes = {"notes": f"{line.text('notes')}; {said}"} if said else {}
    return Line(completed(line.study, corrected(line.study, stem, {**line.cells, **notes})))


def _common_notes(lines: list[Line]) -> dict[str, set[str]]:
    """Clauses that stand in the notes of every row of a source; a study's README says them once."""
    sources: dict[str, list[Line]] = {}
    for line in lines:
        sources.setdefault(line.study, []).append(line)
    return {
        study: set.intersection(*(set(_clauses(line)) for line in group)) if len(group) >= MANY else set()
        for study, group in sources.items()
    }


def _clauses(line: Line) -> list[str]:
    return [clause.strip() for clause in line.text("notes").split(";") if clause.strip()]


def _cases(line: Line, stem: str, common: set[str]) -> Iterator[Case]:
    _refuse(line)
    metrics = list(_metrics(line))
    if not metrics:
        raise Unusable("no metric that the source itself prints")
    assumed: list[str] = []
    workload, overrides = _workload(line, assumed)
    recompute = _recompute(line)
    precision = _precision(line, assumed)
    devices = line.needed("devices", "number of devices")
    hardware = _machine(line)
    overrides |= fabric_overrides(hardware, line.text("interconnect"), devices)
    overrides |= _strategy_overrides(line)
    overrides |= habits(
        line.study, line.text("model"), line.framework, line.text("hardware"), line.text("date"), line.text("table")
    )
    if line.text("kind") == "lora":
        overrides |= adapters(line.text("source"))
    overrides |= packed(line.text("source"), line.text("notes"))
    if "rowwise" in line.text("precision"):
        overrides["workload.training.scales"] = "row"
    zero = _zero(line)
    if not line.text("microbatch"):
        assumed.append("microbatch not stated")
    notes = "; ".join([*assumed, *(clause for clause in _clauses(line) if clause not in common)])
    for position, (metric, value, unit) in enumerate(metrics):
        yield Case(
            id=f"{stem}#{metric}",
            source=line.text("source"),
            address=line.text("address"),
            table=line.text("table"),
            date=line.text("date") if re.match(r"\d{4}-\d\d", line.text("date")) else "",
            workload=workload,
            hardware=hardware,
            devices=devices,
            strategy=line.strategy,
            tp=line.whole("tp"),
            pp=line.whole("pp"),
            vpp=_chunks(line),
            dp=line.whole("dp"),
            cp=line.whole("cp"),
            ep=line.whole("ep"),
            sequence_parallel=_yes(line.text("sp")),
            zero=zero,
            shard_group=_shard_group(line, zero),
            microbatch=line.whole("microbatch"),
            global_batch=line.needed("global_batch", "global batch"),
            seq_len=line.needed("seq_len", "sequence length"),
            precision=precision,
            recompute=recompute,
            schedule=line.schedule or "",
            attention=_attention(line.text("attention_impl") or _local(line), line.strategy),
            overrides=overrides,
            metric=metric,
            value=value,
            unit=unit,
            split=cast("Literal['calibration', 'test']", line.text("split")),
            notes="" if position else notes,
            convention=CONVENTIONS.get(line.study) if metric in FLOP_RATES else None,
            **_memory(line, metric),
        )


def _memory(line: Line, metric: Metric) -> dict[str, Any]:
    """What the source's memory is, where it is not what tensors take on the fullest stage."""
    if metric != "peak_memory":
        return {}
    figure, stage = MEMORY.get(line.study, ("", ""))
    return {"memory_figure": figure or None, "memory_stage": stage or None}


def _local(line: Line) -> str:
    """Tests of Megatron-LM without Transformer Engine in their names set --transformer-impl local, which has no fused attention."""
    return "unfused (local)" if line.notes(r"test case gpt/gpt3_mcore_tp") else ""


def _chunks(line: Line) -> int | None:
    """Model chunks of a stage; what recipes say of them means nothing without a pipeline."""
    if drawn := layout(line.text("notes")):
        return len(drawn) // (line.whole("pp") or 1)
    return line.whole("vpp") if (line.whole("pp") or 1) > 1 or line.whole("vpp") == 1 else None


def _refuse(line: Line) -> None:
    """Raise the reason for which a row is no case at all, the model's limits before the source's."""
    family, kind = line.text("family"), line.text("kind")
    if kind == "oom":
        raise Unusable("ran out of memory, nothing measured")
    if is_mixture(line) and family not in GENERIC and not mixture_workload(line)[0]:
        raise Unusable("mixture of experts whose shape is not stated in full")
    if is_hybrid(line) and not mixture_workload(line)[0]:
        raise Unusable("architecture hybrid, whose shape is not stated")
    if not is_mixture(line) and not is_hybrid(line) and family not in GENERIC:
        raise Unusable(f"architecture {family or 'not stated'} is none that the model has")
    if kind == "lora" and not adapters(line.text("source")):
        raise Unusable("adapters whose width is not stated")
    if line.text("usable") == "no" and (
        not (kind == "lora" or is_hybrid(line)) or line.text("check").startswith("inconsistent")
    ):
        raise Unusable(_why_unusable(line))
    if line.notes(r"test case \S*distill"):
        raise Unusable("distils from a second model, whose shape is not stated")
    if line.schedule is None:
        raise Unusable(f"pipeline schedule {line.printed_schedule} is none that the model has")
    if line.notes("interleave degree not stated|interleaved pipeline .*VPP not printed") and not line.text("vpp"):
        raise Unusable("interleaved pipeline whose degree is not stated")


def _why_unusable(line: Line) -> str:
    check = line.text("check")
    if check.startswith("inconsistent"):
        return f"contradicts itself ({check.partition(':')[2]}): {line.text('check_detail')}"
    return f"marked unusable ({line.text('completeness') or 'no grade'}): {line.text('notes')}"


def _workload(line: Line, assumed: list[str]) -> tuple[str, dict[str, Value]]:
    if is_mixture(line) or is_hybrid(line):
        known, differences = mixture_workload(line)
        if known:
            return known, differences
    generic = GENERIC[line.text("family")]
    if "MaxText" in line.framework and generic == "generic-gpt" and line.notes("ReLU"):
        generic = "generic-maxtext"
    hidden, heads = line.needed("hidden", "width"), line.needed("heads", "heads")
    shape = Shape(
        generic,
        layers=line.needed("layers", "layers"),
        hidden=hidden,
        ffn_hidden=line.needed("ffn_hidden", "width of the MLP"),
        heads=heads,
        kv_heads=line.whole("kv_heads") or heads,
        head_dim=line.whole("head_dim") or hidden // heads,
        vocabulary=_vocabulary(line, assumed),
        facts=tuple(sorted((_model_facts(line) | (small_mixture(line) if is_mixture(line) else {})).items())),
    )
    return named(shape)


def _model_facts(line: Line) -> dict[str, Value]:
    facts: dict[str, Value] = {}
    for pattern, known in MODELS:
        if re.search(pattern, line.framework):
            facts |= known
    for pattern, known in NOTED:
        if line.notes(pattern):
            facts |= {path: value for path, value in known.items() if path.startswith("workload.")}
    return facts


def _vocabulary(line: Line, assumed: list[str]) -> int:
    """As printed; Megatron-LM pads it to 128 rows on each tensor rank, GPT-2's where none is printed."""
    flag = line.notes(r"tokenizer-type=NullTokenizer; vocab-size=(\d+)")
    vocabulary = int(flag.group(1)) if flag else line.whole("vocab")
    if not vocabulary:
        if not line.is_megatron:
            raise Unusable("vocabulary not stated")
        vocabulary = 50257
        assumed.append("vocabulary of GPT-2 assumed")
    if line.is_megatron and vocabulary % 128:
        rows_each = 128 * (line.whole("tp") or 1)
        return -(-vocabulary // rows_each) * rows_each
    return vocabulary


def _machine(line: Line) -> str:
    memory = line.text("device_mem_gb")
    return machine(
        line.text("hardware"),
        memory=float(memory) if memory else None,
        per_node=line.whole("devices_per_node"),
        fabric=f"{line.text('interconnect')} {line.text('model')}",
    )


def strategy(framework: str, date: str = "") -> str:
    """The preset of a framework, of plain Megatron-LM by its date; empty where it has none.

    >>> strategy("Megatron-LM (commit 6985e58)"), strategy("NeMo 24.07"), strategy("Megatron-LM", "2020-09-11")
    ('megatron-2021', 'nemo', 'megatron-2021')
    """
    if framework == "Megatron-LM" and date:
        return next((preset for end, preset in MEGATRON if date < end), "megatron-core")
    return next((preset for pattern, preset in FRAMEWORKS if re.search(pattern, framework)), "")


def _strategy_overrides(line: Line) -> dict[str, Value]:
    found: dict[str, Value] = {}
    single = (line.whole("pp") or 1) == 1
    for pattern, known in NOTED:
        if line.notes(pattern):
            found |= {path: value for path, value in known.items() if path.startswith("strategy.")}
    if line.notes("DDP torch for PP=1") and single:
        found["strategy.gradient_overlap"] = "backward"
    software = f"{line.study}; {line.framework}"
    if (line.whole("tp") or 1) > 1 and pipelined(
        software, line.text("model"), hybrid=is_hybrid(line), zero=_zero(line)
    ):
        found["strategy.tensor_overlap"] = "passes"
    found |= _allocation(line)
    if line.strategy == "nemo-2022" and not single:
        found["strategy.gradient_overlap"] = "none"
    if is_mixture(line):
        found |= routing_overrides(line)
    printed = _recipe(line)
    modules = jax_modules(printed) or recomputed_modules(printed) or ALTERNATE.get(printed, "")
    if modules and modules != "full":
        found["strategy.recompute_modules"] = modules
    found |= _offload(line)
    found |= uneven_stages(line)
    if line.strategy == "jax-gpu" and "MaxText" in line.framework:
        found["strategy.gradient_precision"] = "fp32"  # grad_dtype of base.yml; Pax's flags simplify conversions
    if re.search("fp32 grad accumulation", line.text("precision")):
        found["strategy.gradient_precision"] = "fp32"
    return found


def _allocation(line: Line) -> dict[str, Value]:
    """Habits of a run's software that its preset has not: of losses, and of Megatron-Kwai's gated perceptron."""
    if (line.whole("tp") or 1) > 1 and line.strategy == "torchtitan-fsdp2":
        return {"strategy.allocation.logit_copies": DISTRIBUTED_LOSS}
    if line.strategy in {"nemo", "nemo-graphs", "nemo-eager"} and not FUSED_LOSS.search(
        f"{line.framework}; {line.text('model')}"
    ):
        return {"strategy.loss": "separate"}
    # megatron/model/transformer.py, ParallelMLP, at atc24ae
    return {"strategy.allocation.gate": "apart"} if "Kwai" in line.framework else {}


def _offload(line: Line) -> dict[str, Value]:
    """What leaves the devices."""
    layers = (line.whole("layers") or 1) // (line.whole("pp") or 1)
    try:
        found = offload_of(line.text("notes"), line.text("recompute"), layers)
    except Unstated as reason:
        raise Unusable(str(reason)) from reason
    return {"strategy.offload": found} if found else {}


def _zero(line: Line) -> int | None:
    """Of ZeRO, or of FSDP in its terms."""
    stage, fsdp = line.text("zero_stage"), line.text("fsdp")
    if line.notes("not resharded after forward") or fsdp == "SHARD_GRAD_OP":
        return 2
    printed = re.match(r"[0-3]", stage) or re.search(r"(?<=ZeRO-)[0-3]", stage)
    if printed:
        return int(printed.group())
    return 3 if fsdp not in {"", "0", "no"} else None


def _shard_group(line: Line, zero: int | None) -> int | None:
    """Replicas over which states are sharded, where that is fewer than all."""
    if not zero:
        return None
    each, dp = line.whole("devices_per_node"), line.whole("dp")
    if instances := line.notes(r"num-distributed-optimizer-instances=(\d+)"):
        return (dp or 1) // int(instances.group(1))
    printed = re.search(r"ici_fsdp(?:_parallelism)?=(\d+)", line.text("fsdp")) or line.notes(r"FSDP=(\d+) x DP")
    if line.notes(r"\bHSDP\b(?! replicate=1)") or "in node" in line.text("zero_stage"):
        group = each
    elif printed:
        group = int(printed.group(1))
    else:
        nodes = (count for pattern, count in SHARDING_NODES.items() if re.search(pattern, line.run))
        group = (each or 0) * next(nodes, 0)
    return group if group and group > 1 and group != dp else None


def _precision(line: Line, assumed: list[str]) -> str:
    printed = line.text("precision")
    found = re.search(r"(bf16|fp16|fp32|tf32|fp8|fp4)", printed)
    if not found:
        raise Unusable(f"precision {printed or 'not stated'}")
    name = PRECISIONS[found.group(1)]
    if name in {"fp8", "fp4"} and printed != name:
        assumed.append(f"precision printed as {printed}")
    if printed.endswith("?"):
        assumed.append("precision inferred")
    return name


def _recipe(line: Line) -> str:
    """What a table prints of recomputation, or else the recipe that it belongs to."""
    told = (kept for pattern, kept in RECIPES if re.search(pattern, line.run))
    printed = line.text("recompute")
    return printed or next(told, "")


def _recompute(line: Line) -> str:
    printed = _recipe(line)
    if not printed:
        return ""
    if "implies all layers recomputed" in line.text("notes"):
        return "full"
    if re.match(r"full\b", printed):
        return "full"
    if printed == "none":
        return "none"
    if re.fullmatch(r"selective( \(attention core\)| \+ sequence parallel)?", printed) and "fsdp" not in line.strategy:
        return "selective"
    if "fsdp" not in line.strategy and recomputed_modules(printed):
        return "none"
    if modules := jax_modules(printed) or ALTERNATE.get(printed, ""):
        return "full" if modules == "full" else "none"
    raise Unusable(f"recomputation '{printed}' is none that the model has")


def jax_modules(printed: str) -> str:
    """Parts of a layer that a JAX program executes again, by the products that its policy keeps; empty for other policies.

    >>> jax_modules("save_qkv_proj"), jax_modules("minimal_with_context (saves dots and attention context)")
    ('norms+core+output+mlp+activations', 'norms+activations')
    >>> jax_modules("custom: decoder_layer_input=device ; rest recomputed"), jax_modules("selective")
    ('full', '')
    """
    if not re.search(r"^custom:|^save_|minimal|_offloaded$", printed):
        return ""
    if not re.search(r"q/k/v|query_proj|qkv|saves dot", printed):
        return "full"
    again = (part for part, kept in JAX.items() if not re.search(kept, printed))
    return "+".join(("norms", *again, "activations"))


def recomputed_modules(printed: str) -> str:
    """Parts of a layer that Megatron-Core recomputes by name, in ours; empty where a name is unknown.

    >>> recomputed_modules("selective: layernorm+moe_act")
    'norms+activations'
    """
    named = re.fullmatch(
        r"selective(?:: ?| [\[(])([\w+ ]+?)[\])]?", printed.replace("activation function", "activation_function")
    )
    names = re.split(r" \+ |[+ ]", named.group(1)) if named else []
    return "+".join(MODULES[name] for name in names) if all(name in MODULES for name in names) else ""


def _attention(printed: str, preset: str) -> str:
    """What a row says, unless the preset knows more: which FlashAttention."""
    if re.search(r"no flash|unfused|softmax|dot_product", printed):
        return "unfused"
    known = bool(preset) and find("strategies", preset).attention != "unfused"
    return "" if known or not printed else "flash"


def _yes(printed: str) -> bool | None:
    return None if not printed else printed == "1"


def _metrics(line: Line) -> Iterator[tuple[Metric, str, str]]:
    for column, metric, unit in METRICS:
        value = line.text(column)
        if not value or _derived(line, column):
            continue
        if column == "tflops_per_device" and line.text("tflops_convention") == "hardware":
            yield "hardware_flops_per_device_per_second", value, unit
        elif column == "memory_gb_per_device":
            yield metric, value, "GiB" if line.notes(r"GiB|MiB/1024|/ ?2\^30") or line.study in BINARY else unit
        else:
            yield metric, value, unit


def _derived(line: Line, column: str) -> bool:
    """Whether the table, not its source, is where a value comes from."""
    pattern = DERIVED.get(column)
    before = (
        clause.partition("derived")[0] for clause in re.split(r"[;.] ", line.text("notes")) if "derived" in clause
    )
    return pattern is not None and any(re.search(pattern, text, re.IGNORECASE) for text in before)
