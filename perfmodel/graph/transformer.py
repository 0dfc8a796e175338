"""Transformers: GPT, Llama, BERT, T5, ViT from their shape."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfmodel.graph.adapters import adapted
from perfmodel.graph.builder import Builder, Ops
from perfmodel.graph.graph import Block, Graph
from perfmodel.graph.heads import head, vocabulary
from perfmodel.specs.common import ELEMENT_BYTES, STORED_BYTES
from perfmodel.specs.workload import sequence_of

if TYPE_CHECKING:
    from perfmodel.specs.statespace import Part
    from perfmodel.specs.strategy import Grain, LossKernels
    from perfmodel.specs.workload import Training, Transformer
    from perfmodel.units import Count


def transformer(
    model: Transformer,
    training: Training,
    *,
    microbatch: Count,
    fused: bool,
    elementwise: Grain,
    heads_copied: bool = False,
    loss: LossKernels = "softmax",
) -> Graph:
    """Blocks of one microbatch of ``microbatch`` sequences.

    Args:
        model: the shape.
        training: its sequence length.
        microbatch: sequences, a number or a column.
        fused: attention never writes its scores to memory.
        elementwise: merged has one kernel for dropout and sums, and one for scale, mask and softmax; primitive has several
            for each norm, activation and dropout.
        heads_copied: heads of keys and values are copied to the heads of queries that share them.
        loss: whose kernels compute softmax and cross-entropy.
    """
    sequence = sequence_of(model, training)
    stored, number = STORED_BYTES[training.precision], ELEMENT_BYTES[training.precision]
    operand = number if number < stored else None
    build = Builder(
        model, microbatch, sequence, stored, operand, fused, elementwise, training.packed, heads_copied,
        row_scales=training.scales == "row", loss=loss,
    )  # fmt: skip
    encoder_norm: Ops = (build.norm("embedding norm"),) if model.pretraining_head else ()
    prologue: tuple[Block, ...] = (Block("embedding", (*build.lookup(), *build.relative(), *encoder_norm)),)
    body = _layers(build)
    top = build
    if model.decoder_layers:
        target = training.target_sequence or sequence
        top = replace(build, sequence=target)
        body = (
            Block("encoder layer", (*build.attention(causal=False), *build.mlp()), model.layers),
            Block("encoder norm", (build.norm("encoder final norm"),)),
            Block("decoder layer", _decoder(top, sequence), model.decoder_layers),
        )
        prologue = (*prologue, Block("decoder embedding", top.relative()))
    freeze = training.adapters
    return Graph(
        adapted(prologue, freeze), adapted(body, freeze), adapted((Block("head", head(top)),), freeze),
        boundary=build.tokens * model.hidden * stored,
        tied=vocabulary(model) * model.hidden if model.tied and model.vocabulary else 0,
        tokens=build.tokens if top is build else build.tokens + top.tokens, uneven=model.pattern is not None,
    )  # fmt: skip


def _layers(build: Builder) -> tuple[Block, ...]:
    """A block for each kind of layer that a model has."""
    kinds = build.model.kinds
    alone = len(kinds) == 1
    return tuple(
        Block("layer" if alone else _name(kind), build.layer(kind), len(which), () if alone else which)
        for kind, which in kinds.items()
    )


def _name(kind: tuple[Part, ...]) -> str:
    if len(kind) == 1:
        return f"{kind[0]} layer"
    return (
        f"{'mixture' if 'mixture' in kind else 'dense'} layer{' with window' if 'windowed attention' in kind else ''}"
    )


def _decoder(build: Builder, keys: int) -> Ops:
    return (*build.attention(causal=True), *build.attention(causal=False, keys=keys), *build.mlp())
