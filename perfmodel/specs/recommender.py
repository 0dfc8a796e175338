"""A recommender: tables of vectors for categories, networks for numbers, and how the two are joined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field

from perfmodel.origin import Fraction, Integer, KeepOrigin
from perfmodel.specs.common import ELEMENT_BYTES, Group, Precision, Size
from perfmodel.yamlfile import Fault, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

Widths = Annotated[tuple[Size, ...], Field(max_length=1000)]
MAX_TABLES = 10_000
"""A file is untrusted: counts could fill the memory."""
Skew = Annotated[Fraction, Field(ge=0, le=4)]
Updates = Annotated[Literal["sgd", "rowwise-adagrad", "adagrad", "adam"], KeepOrigin]

STATES: dict[str, tuple[int, int]] = {"sgd": (0, 0), "rowwise-adagrad": (0, 1), "adagrad": (1, 0), "adam": (2, 0)}
"""fp32 numbers that an update of tables keeps for each number of a row, and for each row."""


class Shape(NamedTuple):
    """What decides the cost of one table."""

    rows: int
    width: int
    lookups: float
    skew: float


class Table(Spec):
    """Tables that are alike: a vector for each value of a category."""

    rows: Size
    width: Size | None = None
    """Numbers of a vector; default that of the model."""
    lookups: Annotated[Fraction, Field(gt=0)] = 1.0
    """Of one sample on average, which are added up to one vector (multi-hot features)."""
    skew: Skew | None = None
    """Exponent of Zipf's law that the popularity of rows follows; default that of the model."""
    count: Size = 1


class Cross(Spec):
    """Cross layers of low rank (DCN-v2): x <- x0 * (U V x + b) + x. Wang et al., 2021, section 3 (arXiv:2008.13535)."""

    layers: Size
    rank: Size


class Recommender(Group):
    """DLRM, DCN-v2, Wide & Deep (Naumov et al., 2019, arXiv:1906.00091)."""

    family: Literal["recommender"]
    dense: Annotated[Integer, Field(ge=0)] = 0
    """Numbers of one sample."""
    bottom: Widths = ()
    """Widths of the layers that make a vector of them; none passes them on as they are."""
    width: Size
    """Numbers of a vector, where a table does not say otherwise."""
    skew: Skew = 0.0
    """Exponent of Zipf's law that the popularity of rows follows; 0 looks all up alike."""
    tables: Annotated[tuple[Table, ...], Field(max_length=MAX_TABLES)]
    interaction: Literal["dot", "cat"] = "dot"
    """What is made of the vectors: products of all pairs beside the bottom's, or all of them one after the other."""
    cross: Cross | None = None
    """Layers that what is concatenated passes through."""
    top: Widths
    """Widths of the layers after it; the last is that of the output."""
    wide: bool = False
    """A linear part beside the network (Wide & Deep): one further weight for each row of each table."""
    stored: Precision = "fp32"
    """Of the tables, in which they are updated too."""
    updates: Updates = "sgd"
    """How looked-up rows are updated, in the kernel that makes their gradients."""

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Of all tables, one by one."""
        return tuple(
            Shape(int(t.rows), int(t.width or self.width), float(t.lookups), float(self.skew if t.skew is None else t.skew))
            for t in self.tables
            for _ in range(t.count)
        )  # fmt: skip

    @property
    def number(self) -> float:
        """Bytes of one number of a table."""
        return ELEMENT_BYTES[self.stored]


def recommender_faults(model: Recommender, path: str) -> Iterator[Fault]:
    """Vectors that cannot be multiplied with one another, and parts that hang in the air."""
    count = sum(int(table.count) for table in model.tables)
    if count > MAX_TABLES:
        yield Fault(
            f"{path}.tables",
            f"are {count:,}; at most {MAX_TABLES:,} are predicted at once, so join those that are alike",
        )
        return
    if not count:
        yield Fault(f"{path}.tables", "needs at least one table")
        return
    widths = sorted({shape.width for shape in model.shapes})
    if model.interaction == "dot":
        if len(widths) > 1:
            message = f"dot needs vectors of one width, not of {', '.join(map(str, widths))}; take interaction cat"
            yield Fault(f"{path}.interaction", message)
        elif model.dense and (not model.bottom or model.bottom[-1] != widths[0]):
            made = model.bottom[-1] if model.bottom else model.dense
            yield Fault(
                f"{path}.bottom", f"gives {made} numbers, which dot wants as wide as the tables; end it in {widths[0]}"
            )
        if model.cross:
            yield Fault(f"{path}.cross", "crosses what is concatenated; take interaction cat, or leave it out")
    if model.bottom and not model.dense:
        yield Fault(f"{path}.bottom", "has no numbers to take in; give dense, or leave it out")
    if not model.top:
        yield Fault(f"{path}.top", "needs at least one layer, that of the output")
