"""Finished chunks in a file, a line each, so that an interrupted plan goes on where it stopped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.errors import InputError, Place, Problem
from perfmodel.planner.axes import AXES
from perfmodel.planner.search import Outcome, Refusal, Row
from perfmodel.textfile import read_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfmodel.planner.work import Chunk

MAX_BYTES = 10**9
VERSION = 1
"""Of the lines; the key of a chunk holds everything that its outcome hangs on but this program."""


class Store:
    """Outcomes by the keys of their chunks, in memory and, where there is one, in a file."""

    def __init__(self, path: Path | None) -> None:
        """Read what the file has; it need not be there yet."""
        self.path = path
        self.lines: dict[str, str] = {}
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        lines = read_text(path, f"--resume: {path}", "plan", MAX_BYTES).splitlines()
        for number, line in enumerate(lines, start=1):
            try:
                told = json.loads(line)
                version, key = told["version"], str(told["key"])
            except (ValueError, TypeError, KeyError, RecursionError):
                if number == len(lines):
                    continue  # cut off when the process died
                message = "is no line that a plan wrote; give the file of an interrupted plan, or a new one"
                raise InputError([Problem(Place(str(path), number, 1), "", message)]) from None
            if version == VERSION:
                self.lines[key] = line

    def find(self, chunk: Chunk) -> Outcome | None:
        """What a chunk gave before; None where it was not worked on, or its line is damaged."""
        line = self.lines.get(chunk.key)
        try:
            return None if line is None else _outcome(json.loads(line), chunk)
        except (ValueError, TypeError, KeyError):
            return None

    def keep(self, chunk: Chunk, outcome: Outcome) -> None:
        """Remember a finished chunk."""
        line = json.dumps({"version": VERSION, "key": chunk.key, **_record(outcome)})
        self.lines[chunk.key] = line
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(line + "\n")

    def save(self, folder: Path, chunks: Sequence[Chunk]) -> Path:
        """The file with all finished chunks; a new one in the folder where there is none."""
        if self.path is None:
            self.path = folder / f"perfmodel-plan-{chunks[0].key[:8]}.jsonl"
            self.path.write_text("".join(line + "\n" for line in self.lines.values()), encoding="utf-8")
        return self.path


def require_store(path: Path | None) -> Store:
    """The store of a file; raises InputError where it can be neither read nor written."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        message = "is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise InputError([Problem(Place("--resume"), str(path), message)])
    return Store(path)


def _record(outcome: Outcome) -> dict[str, Any]:
    return {
        "evaluated": outcome.evaluated, "feasible": outcome.feasible, "near": outcome.near.tolist(),
        **{name: [_row(row) for row in getattr(outcome, name)] for name in ("best", "front", "nearest")},
        "refused": [[each.path, each.layouts, each.example] for each in outcome.refused],
    }  # fmt: skip


def _row(row: Row) -> dict[str, Any]:
    own = {name: getattr(row.strategy, name) for name in AXES}
    return {"strategy": own, "rank": row.rank, "step_time": row.step_time, "memory": row.memory}


def _outcome(told: dict[str, Any], chunk: Chunk) -> Outcome:
    def rows(name: str) -> tuple[Row, ...]:
        base = chunk.question.strategy
        return tuple(
            Row(
                chunk.question, base.model_copy(update={**each["strategy"], "devices": None}),
                float(each["rank"]), float(each["step_time"]), float(each["memory"]),
            )
            for each in told[name]
        )  # fmt: skip

    return Outcome(
        chunk.question, int(told["evaluated"]), int(told["feasible"]), rows("best"), rows("front"), rows("nearest"),
        tuple(Refusal(str(path), int(layouts), str(example)) for path, layouts, example in told["refused"]),
        np.array(told["near"], dtype=float),
    )  # fmt: skip
