"""State-space layers, and the letters that say which layers of a hybrid model are of which kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from perfmodel.specs.common import Size
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.specs.workload import Transformer

Part = Literal["attention", "windowed attention", "perceptron", "mixture", "state space"]
"""What stands between a norm and a residual."""
LETTERS: dict[str, Part] = {"M": "state space", "*": "attention", "-": "perceptron", "E": "mixture"}
"""As Megatron-Core writes them (hybrid_layer_allocation.py, Symbols)."""


class StateSpace(Spec):
    """Mamba-2: each head carries a matrix of `head_dim` x `state` numbers along the sequence.

    Dao and Gu, Transformers are SSMs, ICML 2024, sections 6 and 7 (arXiv:2405.21060).
    """

    heads: Size
    head_dim: Size = 64
    state: Size = 128
    """Numbers for each channel of a head (N)."""
    groups: Size = 1
    """Of heads that share what writes into the state and what reads from it (B and C)."""
    kernel: Size = 4
    """Tokens that the convolution before the scan sees."""
    chunk: Size = 256
    """Tokens that one product takes at a time."""


def pattern_faults(model: Transformer) -> Iterator[Fault]:
    """Letters that mean nothing, do not go into the layers, or lack what they stand for."""
    pattern = model.pattern
    if pattern is None:
        if model.state_space:
            yield Fault("model.state_space", "needs a pattern that says which layers it is; give model.pattern", None)
        return
    if unknown := sorted(set(pattern) - set(LETTERS)):
        known = ", ".join(f"{letter} {part}" for letter, part in LETTERS.items())
        yield Fault("model.pattern", f"{' '.join(unknown)} means nothing; write {known}", pattern)
    if not pattern or model.layers % len(pattern):
        message = (
            f"{len(pattern)} letters do not go into {model.layers} layers; write one for each, or a part that repeats"
        )
        yield Fault("model.pattern", message, pattern)
    for letter, name in (("M", "state_space"), ("E", "experts")):
        given = getattr(model, name) is not None
        if given != (letter in pattern):
            missing = (
                f"{letter} needs model.{name}" if letter in pattern else f"has no {letter}; leave model.{name} out"
            )
            yield Fault("model.pattern", missing, pattern)
    if model.experts and (model.experts.dense_first or model.experts.interval > 1):
        yield Fault(
            "model.experts", "the pattern says which layers have them; leave dense_first and interval out", None
        )
    if model.state_space and model.state_space.heads % model.state_space.groups:
        shape = model.state_space
        yield Fault("model.state_space.groups", f"{shape.groups} does not divide the {shape.heads} heads", shape.groups)
