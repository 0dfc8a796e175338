"""Layers that a model's code writes out in operations, and tensor-parallel messages that travel in pieces."""

from __future__ import annotations

from typing import Any

import pytest

import perfmodel
from perfmodel.parallel.tensor import SPLITS

LAYERS, TOKENS, HIDDEN, HEADS, KV, HEAD, FFN = 32, 4096, 4096, 32, 8, 128, 14336
"""Of Llama 3.1 8B and one of its sequences."""


def terms(elementwise: str = "merged", **job: Any) -> dict[str, Any]:
    sets = {"strategy.elementwise": elementwise}
    settings: dict[str, Any] = {"devices": 1, "batch": 1, "seq": TOKENS, "precision": "bf16", "sets": sets} | job
    return {term.name: term for term, *_ in perfmodel.predict("llama-3.1-8b", "dgx-h100", **settings).terms}


@pytest.mark.parametrize(
    ("name", "elements", "once", "written_out"),
    [
        ("mlp norm", TOKENS * HIDDEN, 4, 40),
        ("mlp norm backward", TOKENS * HIDDEN, 6, 104),
        ("rotary", TOKENS * (HEADS + KV) * HEAD, 4, 20),
        ("rotary backward", TOKENS * (HEADS + KV) * HEAD, 4, 20),
        ("swiglu", TOKENS * FFN, 6, 10),
        ("swiglu backward", TOKENS * FFN, 10, 18),
    ],
)
def test_bytes_of_an_element(name: str, elements: int, once: int, written_out: int) -> None:
    assert float(terms()[name].inputs["traffic"]) == once * elements
    assert float(terms("composed")[name].inputs["traffic"]) == written_out * elements


def test_other_layers_are_those_of_one_kernel_each() -> None:
    apart = {"norm", "rotary", "swiglu", "parameter"}
    separate, composed = terms("separate"), terms("composed")
    alike = [name for name in separate if not apart & set(name.split())]
    assert len(alike) > len(apart)
    assert all(float(separate[name].time) == float(composed[name].time) for name in alike)


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_the_last_piece_of_a_scatter_is_hidden_by_nothing(tp: int) -> None:
    sets: dict[str, Any] = {"strategy.tensor_overlap": "passes"}
    job: dict[str, Any] = {"devices": tp, "tp": tp, "strategy": "nemo", "batch": 1, "seq": TOKENS, "precision": "bf16"}
    found = perfmodel.predict("llama-3.1-8b", "dgx-h100", sets=sets, **job).terms
    whole = TOKENS * HIDDEN * 2
    sizes = {(t.name, float(t.inputs["size"])) for t, *_ in found if t.name.startswith("tensor reduce-scatter")}
    assert ("tensor reduce-scatter end", whole / SPLITS) in sizes
    assert ("tensor reduce-scatter", whole - whole / SPLITS) in sizes


def test_products_beside_pieces_have_their_rows_and_take_longer() -> None:
    tp = 4
    job: dict[str, Any] = {"devices": tp, "tp": tp, "strategy": "nemo", "batch": 1, "seq": TOKENS, "precision": "bf16"}
    whole, cut = (
        {term.name: (term, total) for term, total, *_ in perfmodel.predict(
            "llama-3.1-8b", "dgx-h100", sets={"strategy.tensor_overlap": overlap}, **job
        ).terms}
        for overlap in ("backward", "passes")
    )  # fmt: skip
    pieces = {
        "attention qkv": tp,
        "mlp up": tp,
        "mlp down input gradient": tp,
        "mlp down": SPLITS,
        "mlp up weight gradient": 1,
    }
    for name, number in pieces.items():
        (before, least), (after, total) = whole[name], cut[name]
        assert float(after.inputs["rows"]) * number == float(before.inputs["rows"])
        assert total == pytest.approx(number * float(after.time) / float(before.time) * least)
        assert total > least or number == 1


def test_a_host_starts_the_pieces_of_a_product_at_once() -> None:
    job: dict[str, Any] = {
        "devices": 4,
        "tp": 4,
        "strategy": "nemo-eager",
        "batch": 1,
        "seq": TOKENS,
        "precision": "bf16",
    }
    whole, cut = (
        sum(float(term.inputs["launches"]) for term, *_ in perfmodel.predict(
            "llama-3.1-8b", "dgx-h100", sets={"strategy.tensor_overlap": overlap}, **job
        ).terms if term.kind == "host")
        for overlap in ("backward", "passes")
    )  # fmt: skip
    assert cut - whole == 2 * LAYERS  # the last pieces of two scatters in each layer are messages of their own
