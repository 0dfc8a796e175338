"""Features of newer transformers: mixtures of experts, latent attention, windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from perfmodel.origin import Fraction, Integer
from perfmodel.specs.common import Size
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

IMBALANCE = 1.06
"""Tokens of the busiest rank over the mean where experts stay where they are and nothing forces balance.

Mean over layers and iterations of Mixtral 8x7B (16 experts, 4 of them for each token) on 32 A100: 1.66 and 1.73 on two data
sets. LAER-MoE, PKU-DAIR/Hetu-Galvatron, branch laer-moe, token_analysis_backup.csv.
"""


class Experts(Spec):
    """A mixture of experts in the place of the multilayer perceptron: a router sends each token to some of them."""

    count: Size
    """Routed experts of one layer."""
    top_k: Size
    """Of them, those that each token goes to."""
    ffn_hidden: Size
    """Width inside one expert."""
    shared_ffn_hidden: Annotated[Integer, Field(ge=0)] = 0
    """Width of the shared experts together, which every token goes through."""
    shared_gate: bool = False
    """A gate weighs the output of the shared experts."""
    dense_first: Annotated[Integer, Field(ge=0)] = 0
    """Layers at the start that have a multilayer perceptron instead, of width `ffn_hidden` of the model."""
    interval: Size = 1
    """One layer in so many, the last of them, is a mixture; the others are as those at the start."""
    capacity: Annotated[Fraction, Field(gt=0)] | None = None
    """Slots of an expert over its mean share of tokens: tokens beyond it are dropped, empty slots computed. None drops none."""
    imbalance: Annotated[Fraction, Field(ge=1)] = IMBALANCE
    """Tokens of the busiest rank over the mean, where no capacity bounds them; 1 where routing is forced to balance."""

    def is_mixture(self, layer: int) -> bool:
        """Whether a layer, counted from 0, has experts."""
        return layer >= self.dense_first and (layer + 1) % self.interval == 0


class Latent(Spec):
    """Multi-head latent attention (DeepSeek-V2): queries, keys and values from narrow vectors that all heads share.

    DeepSeek-AI, DeepSeek-V2, 2024, section 2.1 (arXiv:2405.04434).
    """

    kv_rank: Size
    """Width of the vector that keys and values are made of."""
    query_rank: Size | None = None
    """Width of the vector that queries are made of; None makes them of the layer's input."""
    nope: Size
    """Width of the part of a head that has no position."""
    rope: Size
    """Width of the part that has a rotary one; its keys are common to all heads."""
    value: Size
    """Width of a head's values."""


def experts_faults(experts: Experts, layers: int, path: str) -> Iterator[Fault]:
    """More experts for a token than there are, and no layer that has any."""
    if experts.top_k > experts.count:
        message = f"a token cannot go to {experts.top_k} of {experts.count} experts; take at most {experts.count}"
        yield Fault(f"{path}.top_k", message, experts.top_k)
    if not any(map(experts.is_mixture, range(layers))):
        yield Fault(f"{path}.dense_first", f"leaves none of the {layers} layers a mixture", experts.dense_first)
