"""What the software of a job allocates beside states and activations."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from perfmodel.origin import Fraction, KeepOrigin
from perfmodel.specs.common import Group
from perfmodel.units import Bytes

Gradients = Annotated[Literal["none", "layer", "stage"], KeepOrigin]
Buckets = Annotated[Literal["views", "copies"], KeepOrigin]


class Allocation(Group):
    """Habits of a framework that cost memory; `reserve` and `workspace` are fitted on calibration rows, the rest is read in code."""

    logit_copies: Annotated[Fraction, Field(ge=0)] = 1.0
    """fp32 copies of the logits that exist at once, beside the logits themselves: 1 where softmax and its gradient work in
    place, 2 where a maximum is subtracted into a new tensor, 3 where each step of PyTorch's cross-entropy has its own; a
    copy in 16 bits counts one half."""
    logits: Annotated[Literal["split", "whole"], KeepOrigin] = "split"
    """With tensor parallelism: whether each rank has its part of the vocabulary in the loss, or gathers all of it."""
    gradients: Gradients = "layer"
    """Gradients of weights as products make them, before they are added to the sum: of no layer, of one, or of all layers
    of the stage until the pass ends."""
    buckets: Buckets = "views"
    """Whether gradients lie in the buckets that are sent, or are copied into them, as by PyTorch's DDP by default."""
    bucket_size: Bytes = 0.0
    """Of buckets of a fixed size, all together."""
    unsharded_gradients: bool = False
    """With ZeRO 2 and 3: gradients of a stage add up whole over the microbatches of a step, and are scattered once."""
    whole_in_pipelines: bool = False
    """With ZeRO 3 in a pipeline: weights stay whole from a stage's first backward pass on, and gradients add up whole, until
    the last one."""
    narrow_states: bool = False
    """No fp32 master copy: the optimiser's moments are as narrow as the weights."""
    narrow_weights: Annotated[Literal["kept", "gathered"], KeepOrigin] = "kept"
    """Whether the weights that compute are kept beside the fp32 ones, or cast anew with each gathering, as FSDP does."""
    gathered_inputs: Annotated[Literal["again", "kept"], KeepOrigin] = "again"
    """With sequence parallelism: whether the whole input of a product is gathered again in the backward pass, or kept."""
    gate: Annotated[Literal["fused", "apart"], KeepOrigin] = "fused"
    """Of a gated perceptron: whether one kernel activates and multiplies, or each is one of its own, so that the activated half is
    kept beside both halves and their product (`act(gate) * up` in eager PyTorch)."""
    update: Annotated[Fraction, Field(ge=0)] = 0.0
    """Bytes for each parameter whose states a rank updates that exist in the optimiser step alone."""
    workspace: Bytes = 0.0
    """Of libraries of products and attention, allocated once."""
    reserve: Annotated[Fraction, Field(ge=0)] = 0.04
    """Share of the allocated bytes that the allocator holds beyond them, in the middle of cases."""
    reserve_most: Annotated[Fraction, Field(ge=0)] = 0.10
    """The same in nine of ten cases."""


USUAL = Allocation.model_construct(source="", status="assumed")
"""Of a strategy that names no framework."""
