"""What stands in for settings that a source does not print: from the recipes of its authors, or a stated assumption.

No constant is fitted to a row with a setting that was filled in: such rows are of the split test.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ZOO = "https://github.com/yanring/Megatron-MoE-ModelZoo/blob/0993e667ef21/runtime_configs/benchmarking/runtime.conf"
ZERO_BUBBLE = "https://github.com/sail-sg/zero-bubble-pipeline-parallelism/blob/475e062939f1/examples/pretrain_zbh1.sh"


@dataclass(frozen=True, slots=True)
class Stand:
    """Cells that are filled in where they are empty, and what the row's notes then say."""

    study: str
    cells: Mapping[str, str]
    notes: str
    run: str = ""
    """Pattern of framework and notes of the rows that it is for; empty: all of the study."""


STANDS: tuple[Stand, ...] = (
    Stand(
        "moe-parallel-folding", {"microbatch": "1", "vpp": "1", "recompute": "none"},
        f"microbatch, virtual stages and flags as in the authors' benchmark of Mixtral 8x22B ({ZOO}): overlap-grad-reduce, tp-comm-overlap",
        run=r"method (MCore|TP\+EP)",
    ),
    Stand(
        "moe-parallel-folding", {"microbatch": "1", "recompute": "none"}, "one sequence a microbatch, nothing recomputed (assumed)",
        run=r"method FSDP",
    ),
    Stand(
        "megascale", {"microbatch": "1", "vpp": "6", "recompute": "none"},
        "one sequence a microbatch, 6 chunks of 2 layers on each stage, nothing recomputed (assumed)",
        run=r"^Megatron-LM;",
    ),
    Stand(
        "zero-bubble", {"precision": "fp16", "vocab": "32000", "attention_impl": "unfused (before FlashAttention)"},
        f"fp16 and unfused attention as in the authors' script ({ZERO_BUBBLE}), vocabulary of 32,000 by the printed sizes",
    ),
)  # fmt: skip
"""By study; the first that fits."""


def completed(study: str, cells: Mapping[str, str]) -> dict[str, str]:
    """The cells of a row that its source left incomplete, with what stands in for the rest; others as they are.

    >>> completed("zero-bubble", {"usable": "no", "completeness": "partial", "notes": "schedule 1F1B"})["precision"]
    'fp16'
    >>> completed("zero-bubble", {"usable": "no", "completeness": "thin"})
    {'usable': 'no', 'completeness': 'thin'}
    """
    given = dict(cells)
    if (given.get("usable"), given.get("completeness")) != ("no", "partial") or "incons" in given.get("check", ""):
        return given
    run = f"{given.get('framework', '')}; {given.get('notes', '')}"
    stand = next((s for s in STANDS if s.study == study and re.search(s.run, run)), None)
    if stand is None:
        return given
    filled = {name: value for name, value in stand.cells.items() if not given.get(name, "").strip()}
    notes = "; ".join(filter(None, (given.get("notes", ""), stand.notes)))
    return {**given, **filled, "notes": notes, "usable": "yes", "split": "test"}
