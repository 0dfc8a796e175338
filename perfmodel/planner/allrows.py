"""Every candidate, written to a file as it is priced: memory stays that of one chunk."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.errors import InputError, Place, Problem
from perfmodel.planner.space import grouped
from perfmodel.specs.offload import STAYS
from perfmodel.specs.tables import WHOLE

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from perfmodel.planner.pricing import Candidates
    from perfmodel.planner.search import Question
    from perfmodel.planner.space import Choice

DEGREES = ("tp", "cp", "pp", "dp", "ep", "etp", "vpp", "microbatch")
KINDS = (".csv", ".parquet")


def require_kind(path: Path) -> None:
    """Raises InputError where a file is no CSV and no Parquet, cannot be written, or pyarrow is missing."""
    message = None
    if path.suffix not in KINDS:
        message = f"ends in none of {', '.join(KINDS)}"
    elif not path.parent.is_dir():
        message = f"there is no folder {path.parent}"
    elif path.suffix == ".parquet":
        try:
            import pyarrow  # noqa: F401, ICN001 - whether it is there
        except ImportError:
            message = "needs pyarrow; pip install 'perfmodel[parquet]', or write a .csv"
    if message:
        raise InputError([Problem(Place("--all-rows"), str(path), message)])


class AllRows:
    """A file of candidates; each offered chunk is some of its lines, or one row group."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened before the first chunk."""
        self.path = path
        self._writer: Any = None

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()

    def write(self, question: Question, choice: Choice, made: Candidates, fits: Any) -> None:
        """Append a chunk of candidates."""
        columns = _columns(question, choice, made, fits)
        if self.path.suffix == ".csv":
            self._write_csv(columns)
        else:
            self._write_parquet(columns)

    def _write_csv(self, columns: dict[str, Any]) -> None:
        import pandas as pd

        if self._writer is None:
            self._writer = self.path.open("w", encoding="utf-8", newline="")
            self._writer.write(",".join(columns) + "\n")
        pd.DataFrame(columns).to_csv(self._writer, header=False, index=False)

    def _write_parquet(self, columns: dict[str, Any]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        table = pa.table(columns)
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self.path, table.schema)
        self._writer.write_table(table)


def _columns(question: Question, choice: Choice, made: Candidates, fits: Any) -> dict[str, Any]:
    size = len(made.step_time)
    degrees = {name: np.broadcast_to(np.asarray(getattr(made.layout, name)), size).astype(np.int64) for name in DEGREES}
    chosen = {field.name: np.full(size, getattr(choice, field.name)) for field in fields(choice)}
    chosen["zero"] = np.full(size, str(choice.zero))  # a stage, or letters
    chosen["tables"] = np.full(size, str(choice.tables or WHOLE))
    chosen["offload"] = np.full(size, str(choice.offload or STAYS))
    group = np.broadcast_to(np.asarray(made.layout.shard_group if grouped(choice.zero) else 1), size).astype(np.int64)
    return {
        "hardware": np.full(size, str(question.hardware.name)), "devices": np.full(size, question.devices), **degrees,
        **{name: column.astype(str) if column.dtype.kind in "UO" else column for name, column in chosen.items()},
        "shard_group": group, "step_time": made.step_time, "memory": made.memory, "fits": np.asarray(fits),
    }  # fmt: skip
