"""Low-rank adapters beside frozen products."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfmodel.graph.experts import Experts
from perfmodel.graph.ops import Elementwise, Embedding, Linear, Norm, Scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.graph.graph import Block
    from perfmodel.graph.ops import Op
    from perfmodel.graph.split import Split
    from perfmodel.specs.adapters import Adapters


def adapted(blocks: tuple[Block, ...], adapters: Adapters | None) -> tuple[Block, ...]:
    r"""Blocks whose weights are frozen, with a pair of narrow products beside those that have an adapter.

    .. math:: y = W x + B A x, \quad A \in R^{r \times k}, B \in R^{d \times r}

    A frozen weight has no gradient and no optimiser states, and its product keeps no input; gradients still pass through it to
    the layers below (the first layer too, although nothing below it is trained).

    Args:
        blocks: of a model that is trained as a whole.
        adapters: their width and products; None leaves the blocks as they are.

    References:
        Hu et al., LoRA - low-rank adaptation of large language models, 2021, section 4.1, https://arxiv.org/abs/2106.09685.
        How tensor parallelism splits the pair is derived: that beside a product split by columns computes where the sequence is
        split, and only its narrow middle travels.
    """
    if adapters is None:
        return blocks
    return tuple(
        replace(block, ops=tuple(part for op in _plain(block.ops, adapters) for part in _beside(op, adapters)))
        for block in blocks
    )


def _plain(ops: tuple[Op, ...], adapters: Adapters) -> Iterator[Op]:
    """Norms whose results adapters take as well do not cast them (`return_layernorm_output` of Transformer Engine)."""
    for op, after in zip(ops, (*ops[1:], None), strict=True):
        if isinstance(op, Norm) and isinstance(after, Linear) and after.name in adapters.products:
            yield replace(op, written=None)
        elif isinstance(op, Linear) and op.name in adapters.products:
            yield replace(op, normed=False)
        else:
            yield op


def _beside(op: Op, adapters: Adapters) -> Iterator[Op]:
    if isinstance(op, Linear | Norm | Embedding | Experts | Scan):
        yield replace(op, frozen=True)
    else:
        yield op
    if isinstance(op, Linear) and op.name in adapters.products:
        yield from _pair(op, adapters.rank)


def _pair(op: Linear, rank: int) -> tuple[Op, ...]:
    """The products before and after the narrow middle, and the sum; backward also the sum of the gradients of the input."""
    plain = replace(op, bias=False, operand=None, frozen=False)
    outer: Split = "row" if op.split == "row" else "sequence"
    inner: Split = "sequence" if op.split == "row" else op.split
    gradients = 3 * op.inputs / op.outputs
    return (
        replace(plain, name=f"{op.name} adapter in", outputs=rank, split=outer),
        replace(plain, name=f"{op.name} adapter out", inputs=rank, split=inner),
        Elementwise(
            f"{op.name} adapter sum", op.rows * op.outputs, op.element, reads=2, backward_traffic=gradients,
            split="tensor" if op.split == "column" else "sequence",
        ),
    )  # fmt: skip
