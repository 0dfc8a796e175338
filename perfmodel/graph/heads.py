"""What stands after the layers of a transformer: final norm, output layer, loss, further tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfmodel.graph.ops import Elementwise, Embedding, Linear, Loss, Op

if TYPE_CHECKING:
    from perfmodel.graph.builder import Builder
    from perfmodel.specs.workload import Transformer

Ops = tuple[Op, ...]


def head(build: Builder) -> Ops:
    """Final norm, output layer and loss."""
    m = build.model
    norm: Ops = (build.norm("final norm"),) if m.final_norm else ()
    if m.pretraining_head:
        return (*norm, *_bert_head(build))
    if m.classes:
        output = build.linear("classifier", m.hidden, m.classes, "none", rows=build.batch, bias=True)
        return (*norm, output, Loss("loss", build.batch, m.classes, build.element, split="none"))
    return (*norm, *_output(build, bias=False), *_future(build))


def _output(build: Builder, *, bias: bool) -> Ops:
    """Logits over the vocabulary and their loss; a tied output layer adds no weights, but a bias may."""
    m, words = build.model, vocabulary(build.model)
    rows = build.tokens * m.predicted
    logits = build.linear("logits", m.hidden, words, "column", rows=rows, bias=bias, shared=m.tied)
    extra: Ops = (Embedding("logits bias", 1, 1, words, build.element, split="none"),) if bias and m.tied else ()
    return (logits, *extra, Loss("loss", rows, words, build.element, kernels=build.loss))


def _future(build: Builder) -> Ops:
    """Modules that predict tokens further ahead, one after the other (DeepSeek-V3, section 2.2, arXiv:2412.19437).

    Each joins what came before with the embedding of the next token, and shares embedding and output layer.
    """
    m = build.model
    module = (
        build.norm("future norm"),
        build.norm("future embedding norm"),
        build.linear("future projection", 2 * m.hidden, m.hidden, "column", bias=False),
        *build.layer(m.future),
        build.norm("future final norm"),
        *(replace(op, shared=True) if isinstance(op, Linear) else op for op in _output(build, bias=False)),
    )
    return m.future_tokens * module


def _bert_head(build: Builder) -> Ops:
    """Pooler and next-sentence classifier; transform and logits of the masked positions."""
    m, rows = build.model, build.tokens * build.model.predicted
    activation = Elementwise("transform gelu", rows * m.hidden, build.element, kept=1, backward_traffic=3, split="none")
    return (
        build.linear("pooler", m.hidden, m.hidden, "none", rows=build.batch),
        build.linear("next sentence", m.hidden, 2, "none", rows=build.batch),
        build.linear("transform", m.hidden, m.hidden, "none", rows=rows),
        activation,
        build.norm("transform norm", rows=rows),
        *_output(build, bias=True),
    )


def vocabulary(model: Transformer) -> int:
    """Words; 0 of an image model."""
    return int(model.vocabulary or 0)
