"""Features of newer transformers: mixtures of experts, latent attention, windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from perfmodel.formulas.uneven import settling_imbalance
from perfmodel.origin import Fraction, Integer
from perfmodel.specs.common import Size
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

IMBALANCE = 1.06
"""Tokens of the busiest rank over the mean, where a loss of weight 0.01 balances the router.

Of Mixtral 8x7B on 32 A100 with hardly any such loss the busiest rank got 1.7 times the mean (1.66 with 8 experts, 1.73 with
16); a loss of 0.01 cut Megatron-LM's step to 0.621 of that. Were the whole step proportional to the busiest rank, that would
be 1.06; so it is at most that. LAER-MoE, PKU-DAIR/Hetu-Galvatron, branch laer-moe, token_analysis_backup.csv and
convergence_analysis_backup.csv.
"""


class Settling(Spec):
    """A router that learns to balance: what is predicted is the mean step of the training."""

    first: Annotated[Fraction, Field(ge=1)]
    """Tokens of the busiest rank over the mean in the first steps; `imbalance` is what it comes to."""
    settling: Annotated[Fraction, Field(gt=0)]
    """Steps in which the difference falls to 1/e."""
    steps: Size
    """Of the training, or of the part of it that is asked about."""


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
    latent: Size | None = None
    """Width to which tokens are narrowed before they travel to the routed experts (latent mixtures); None sends them whole."""
    shared_gate: bool = False
    """A gate weighs the output of the shared experts."""
    dense_first: Annotated[Integer, Field(ge=0)] = 0
    """Layers at the start that have a multilayer perceptron instead, of width `ffn_hidden` of the model."""
    interval: Size = 1
    """One layer in so many, the last of them, is a mixture; the others are as those at the start."""
    capacity: Annotated[Fraction, Field(gt=0)] | None = None
    """Slots of an expert over its mean share of tokens: tokens beyond it are dropped, empty slots computed. None drops none."""
    imbalance: Annotated[Fraction, Field(ge=1)] = IMBALANCE
    """Tokens of the busiest rank over the mean, where no capacity bounds them; 1 where routing is forced to balance, 1.7 with
    hardly any loss to balance it."""
    settling: Settling | None = None
    """How the router comes to that imbalance; None has it from the start."""
    groups: Size | None = None
    """Into which the experts fall, where a token goes to a few groups alone."""
    top_groups: Size | None = None
    """Groups that a token goes to at most."""

    @property
    def mean_imbalance(self) -> float:
        """Of the steps of the training."""
        if self.settling is None:
            return float(self.imbalance)
        given = self.settling
        return float(
            settling_imbalance(first=given.first, last=self.imbalance, steps=given.steps, settling=given.settling)
        )

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
    if (experts.groups is None) != (experts.top_groups is None):
        yield Fault(f"{path}.groups", "groups and top_groups go together; give both, or none", experts.groups)
    if experts.groups and experts.count % experts.groups:
        message = f"{experts.groups} does not divide the {experts.count} experts"
        yield Fault(f"{path}.groups", message, experts.groups)
    if not any(map(experts.is_mixture, range(layers))):
        yield Fault(f"{path}.dense_first", f"leaves none of the {layers} layers a mixture", experts.dense_first)
