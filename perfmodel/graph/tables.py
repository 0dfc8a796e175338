"""Operations of recommenders: lookups in all tables at once, and products of all pairs of vectors."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.formulas.embedding import distinct_rows, frequent_rows, popular_share, row_traffic
from perfmodel.graph.kernels import Gemm, Lookup, Stream
from perfmodel.units import Bytes, Count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfmodel.graph.split import Kernels
    from perfmodel.specs.recommender import Shape

SECTOR = 32.0
"""Bytes that the memory of a GPU moves at least (NVIDIA, CUDA C++ best practices guide, coalesced access)."""
INDEX = 8
"""Bytes of an id."""
SORT_PASSES = 3
"""Of the radix sort that brings equal ids together, each of which reads and writes an id and its position."""


@dataclass(frozen=True, slots=True)
class Tables:
    """All tables of a rank in one kernel, and their update in the one that makes their gradients (derived; as FBGEMM's table-batched embeddings).

    A rank of a group of ``ranks`` looks up, for the batches of all of them, what it holds: whole tables, columns, or rows.
    """

    name: str
    batch: Count
    """Samples of one rank."""
    shapes: tuple[Shape, ...]
    element: Bytes
    """Of a vector as it leaves the tables."""
    number: Bytes
    """Bytes of one number in a table."""
    states: tuple[int, int] = (0, 0)
    """fp32 numbers that the update keeps for each number, and for each row."""
    under: str = ""
    """The block beside which vectors travel; empty where there is none."""
    ranks: Count = 1
    pieces: Count = 1
    """Into which columns are cut, each on a rank of its own."""
    partial: Count = 1
    """Ranks that each make a part of every vector, which are then added up."""
    parts: Count = 1.0
    """Vectors that leave the ranks for each that a sample wants, where tables are cut by rows before they go to ranks."""
    copies: tuple[Shape, ...] = ()
    """Further tables, which every rank has and looks up for its own batch."""
    popular: bool = False
    """Whether rows that occur in the batch of each rank are on all of them, so that no vectors of theirs travel."""
    sparse: bool = False
    """Whether the gradient of each lookup is written, and rows are changed by further kernels."""
    load: Count = 1.0
    """Work of the fullest rank over the mean."""
    fullness: Count = 1.0
    """Bytes of the fullest rank over the mean."""
    kept: float = 1.0
    """Share of the rows in the memory of the device."""
    hit_rate: float | None = None
    """Of lookups that find theirs there; None follows from the skew of the tables."""

    @property
    def parameters(self) -> Count:
        """Of all tables together: ranks hold parts of them, in states of their own."""
        return sum(shape.rows * shape.width for shape in (*self.shapes, *self.copies))

    @property
    def vectors(self) -> Count:
        """Numbers that the tables make of one sample."""
        return sum(shape.width for shape in self.shapes)

    @property
    def travelling(self) -> Count:
        """Numbers of one sample that come from other ranks: all that the tables make, or what lookups of rare rows find."""
        if not self.popular:
            return self.vectors
        return sum(
            s.width * s.lookups * (1 - popular_share(table=s.rows, kept=self._frequent(s), skew=s.skew))
            for s in self.shapes
        )

    @property
    def popular_numbers(self) -> Count:
        """Of the rows that all ranks have."""
        return sum(s.width * self._frequent(s) for s in self.shapes) if self.popular else 0.0

    @property
    def lookups(self) -> Count:
        """Of one sample."""
        return sum(shape.lookups for shape in self.shapes)

    @property
    def weights(self) -> Bytes:
        """Of the fullest rank."""
        spread = self._parameters * self.number / self.ranks * self.fullness
        return spread + self.popular_numbers * self.number + sum(op.weights for op in self._copied)

    @property
    def moments(self) -> Bytes:
        """What the update of the fullest rank keeps."""
        each, whole = self.states
        rows = sum(shape.rows for shape in self.shapes) * self.pieces
        mine = 4.0 * (each * self._parameters + whole * rows) / self.ranks * self.fullness
        return mine + sum(op.moments for op in self._copied)

    @property
    def saved(self) -> Bytes:
        """Ids of what this rank looked up, for its gradients."""
        return INDEX * self._found + sum(op.saved for op in self._copied)

    @property
    def _parameters(self) -> Count:
        """Of what ranks hold parts of."""
        return sum(shape.rows * shape.width for shape in self.shapes)

    @property
    def _copied(self) -> tuple[Tables, ...]:
        """What every rank has, as tables of one rank."""
        alone = replace(
            self, shapes=self.copies, copies=(), ranks=1, pieces=1, partial=1, parts=1.0, load=1.0, fullness=1.0
        )
        return (alone,) if self.copies else ()

    @property
    def _found(self) -> Count:
        return self.batch * self.lookups * self.pieces * self.load

    def forward(self) -> Kernels:
        """Read each row that occurs, write the vectors."""
        moved = (self._read(), *(op._read() for op in self._copied))  # noqa: SLF001 - the same class
        return (Lookup(self.name, *map(sum, zip(*moved, strict=True))),)

    def backward(self) -> Kernels:
        """Change each row that occurs, in one kernel or in several."""
        updates = (self._sparse if self.sparse else self._fused)()
        return (*updates, *(kernel for op in self._copied for kernel in op.backward()))

    def _read(self) -> tuple[Bytes, Bytes]:
        read, missed = self._rows(states=False)
        return read + self.batch * self.vectors * self.element * self.partial * self.parts * self.load, missed

    def _fused(self) -> Kernels:
        """Sort the ids; read the gradient of each lookup; read and write each row that occurs, with its states."""
        sort = Stream(f"{self.name} sort", SORT_PASSES * 2 * (INDEX + INDEX) * self._found)
        changed, missed = self._rows(states=True)
        return (sort, Lookup(f"{self.name} update", self._gradients * self.element + 2 * changed, 2 * missed))

    def _sparse(self) -> Kernels:
        """An fp32 gradient of each lookup, taken out of the loss's scale in half precision, times the learning rate, added to its row.

        As PyTorch's GradScaler, then SGD with a sparse gradient, which adds it to a dense weight
        (aten/src/ATen/native/sparse/cuda/SparseCUDATensorMath.cu: values times the factor, then index_add, a general kernel that
        adds numbers one at a time).
        """
        values = 4.0 * self._gradients
        passes = ("unscale", "scale") if self.element < 4.0 else ("scale",)
        changed, missed = self._rows(states=True)
        away = () if self.kept == 1.0 else (Lookup(f"{self.name} update beyond the link", 0.0, 2 * missed),)
        return (
            Stream(f"{self.name} gradients", self._gradients * self.element + values),
            *(Stream(f"{self.name} {name}", 2 * values) for name in passes),
            Stream(f"{self.name} update", values + 2 * changed, pace="gather", elements=self._gradients),
            *away,
        )

    def _frequent(self, shape: Shape) -> Count:
        return frequent_rows(table=shape.rows, lookups=self.batch * shape.lookups, skew=shape.skew)

    @property
    def _gradients(self) -> Count:
        """Numbers of the gradients of all lookups."""
        return self.batch * sum(s.lookups * s.width for s in self.shapes) * self.load

    def _rows(self, *, states: bool) -> tuple[Bytes, Bytes]:
        """Bytes of the rows that occur, on the device and beyond its link."""
        near: Bytes = 0.0
        far: Bytes = 0.0
        for size, share in self._occurring(states=states):
            near, far = near + share * size, far + (1 - share) * size
        return near, far

    def _occurring(self, *, states: bool) -> Iterator[tuple[Bytes, float]]:
        """For tables that are alike: bytes of their rows that occur on this rank, and the share on the device."""
        each, whole = self.states if states else (0, 0)
        for shape, count in Counter(self.shapes).items():
            rows, width, lookups, skew = shape
            occurring = distinct_rows(table=rows, lookups=self.batch * self.ranks * lookups, skew=skew)
            mine = count * occurring * self.pieces / self.ranks * self.load
            moved = row_traffic(rows=mine, row=width / np.asarray(self.pieces) * self.number, sector=SECTOR)
            more = row_traffic(rows=mine, row=4.0 * (each * width / np.asarray(self.pieces) + whole), sector=SECTOR)
            yield moved + more, self._hits(rows, skew)

    def _hits(self, rows: int, skew: float) -> float:
        if self.kept in {0.0, 1.0} or self.hit_rate is not None:
            return self.kept if self.hit_rate is None else self.hit_rate
        return float(popular_share(table=rows, kept=self.kept * rows, skew=skew))


@dataclass(frozen=True, slots=True)
class Pairs:
    """Products of all pairs of vectors of a sample (Naumov et al., 2019, section 2.1.3), beside the first of them."""

    name: str
    batch: Count
    vectors: int
    width: int
    element: Bytes

    @property
    def parameters(self) -> Count:
        """None."""
        return 0

    @property
    def outputs(self) -> int:
        """Of one sample: each pair once, and the first vector."""
        return self.vectors * (self.vectors - 1) // 2 + self.width

    @property
    def saved(self) -> Bytes:
        """All vectors, one after the other."""
        return self.batch * self._stacked

    @property
    def _stacked(self) -> Bytes:
        return self.vectors * self.width * self.element

    def forward(self) -> Kernels:
        """Put the vectors together, multiply them with one another, pick one triangle of the products."""
        return (
            Stream(f"{self.name} stack", 2 * self.saved),
            self._product(self.name, self.vectors, self.width),
            Stream(f"{self.name} triangle", 2 * self.batch * self.outputs * self.element),
        )

    def backward(self) -> Kernels:
        """The triangle into a square; its products with the vectors, once from each side; the gradients apart."""
        square = self.batch * self.vectors**2 * self.element
        return (
            Stream(f"{self.name} triangle backward", square + self.batch * self.outputs * self.element),
            self._product(f"{self.name} left gradient", self.width, self.vectors),
            self._product(f"{self.name} right gradient", self.width, self.vectors),
            Stream(f"{self.name} stack backward", 4 * self.saved),
        )

    def _product(self, name: str, columns: int, depth: int) -> Gemm:
        return Gemm(name, self.vectors, columns, depth, self.element, count=self.batch)
