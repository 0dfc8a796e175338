"""Recommenders: tables, a network for numbers, the interaction of both, a network on top."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from perfmodel.graph.graph import Block, Graph
from perfmodel.graph.ops import Elementwise, Linear, Op, Pairs, Tables
from perfmodel.specs.recommender import STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfmodel.specs.recommender import Recommender
    from perfmodel.units import Bytes, Count

BOTTOM = "bottom network"
"""Beside which vectors travel."""


def recommender(model: Recommender, *, microbatch: Count, element: Bytes, merged: bool) -> Graph:
    """Blocks of one microbatch.

    Args:
        model: tables and widths.
        microbatch: samples, a number or a column.
        element: bytes of one activation.
        merged: products rectify their results themselves.
    """
    return Graph(
        prologue=(), body=tuple(_Builder(model, microbatch, element, merged).blocks()), epilogue=(), boundary=0
    )


@dataclass(frozen=True, slots=True)
class _Builder:
    model: Recommender
    batch: Count
    element: Bytes
    merged: bool

    @property
    def _dense(self) -> int:
        """Numbers beside the vectors of the tables."""
        return self.model.bottom[-1] if self.model.bottom else int(self.model.dense)

    def blocks(self) -> list[Block]:
        """In order; what there is none of is left out."""
        joined, ops = self._interaction()
        blocks = (
            Block("tables", (self._tables(),)),
            Block(BOTTOM, self._network("bottom", (self.model.dense, *self.model.bottom), first=True)),
            Block("interaction", ops),
            Block("top network", self._network("top", (joined, *self.model.top), first=False)),
            Block("loss", self._loss()),
        )
        return [block for block in blocks if block.ops]

    def _tables(self) -> Tables:
        m = self.model
        weights = tuple(shape._replace(width=1) for shape in m.shapes) if m.wide else ()
        return Tables(
            "tables", self.batch, (*m.shapes, *weights), self.element, m.number, STATES[m.updates],
            under=BOTTOM if m.bottom else "",
        )  # fmt: skip

    def _network(self, name: str, widths: Sequence[int], *, first: bool) -> tuple[Op, ...]:
        """Layers with rectifiers; the last of the top gives the output as it is."""
        last = len(widths) - 1
        ops: list[Op] = []
        for layer, (inputs, outputs) in enumerate(pairwise(widths), start=1):
            ops.append(
                Linear(
                    f"{name} {layer}", self.batch, inputs, outputs, self.element, bias=True,
                    first=first and layer == 1, input_kept=self.merged and layer > 1,
                )
            )  # fmt: skip
            if first or layer < last:
                ops.append(self._elementwise(f"{name} relu {layer}", outputs, kept=1, backward=3, merged=self.merged))
        return tuple(ops)

    def _interaction(self) -> tuple[int, tuple[Op, ...]]:
        """What comes out of it, and the operations."""
        m = self.model
        if m.interaction == "dot":
            width = m.shapes[0].width
            pairs = Pairs("pairs", self.batch, len(m.shapes) + bool(self._dense), width, self.element)
            return pairs.outputs, (pairs,)
        joined = sum(shape.width for shape in m.shapes) + self._dense
        ops: list[Op] = [self._elementwise("concatenation", joined, backward=2)]
        for layer in range(1, m.cross.layers + 1 if m.cross else 1):
            ops += self._cross(layer, joined, m.cross.rank if m.cross else 1)
        return joined, tuple(ops)

    def _cross(self, layer: int, width: int, rank: int) -> tuple[Op, ...]:
        """x0 * (U V x + b) + x: reads three maps and keeps two of them."""
        return (
            Linear(f"cross {layer} down", self.batch, width, rank, self.element),
            Linear(f"cross {layer} up", self.batch, rank, width, self.element, bias=True),
            self._elementwise(f"cross {layer}", width, reads=3, kept=2, backward=6),
        )

    def _loss(self) -> tuple[Op, ...]:
        """Of one probability; with a wide part, after the sum of its weights."""
        outputs = self.model.top[-1]
        wide = (self._elementwise("wide sum", len(self.model.shapes), backward=1),) if self.model.wide else ()
        return (*wide, self._elementwise("loss", outputs, reads=2, kept=1, backward=3))

    def _elementwise(
        self, name: str, width: int, *, reads: int = 1, kept: int = 0, backward: int, merged: bool = False
    ) -> Elementwise:
        return Elementwise(
            name, self.batch * width, self.element, reads=reads, kept=kept, backward_traffic=backward, split="none",
            merged=merged,
        )  # fmt: skip
