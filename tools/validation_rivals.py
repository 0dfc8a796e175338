"""The part of docs/validation.md and of the README that sets the errors beside those of other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perfmodel.validation.cases import Outcome
    from perfmodel.validation.run import Judged


class Compared(NamedTuple):
    """One set of published step times, and the mean absolute errors of others on it, in percent."""

    name: str
    study: str
    devices: Callable[[int], bool]
    table: str
    others: tuple[str, ...]


TOOLS = ("Calculon", "SimuMax", "llm-analysis", "half of the peak")
ALL = (
    Compared("Megatron-LM, 1.7 B to 1 T on up to 3,072 A100", "megatron-sc21", lambda _: True, "Table 1", ("19.8", "7.1", "46.4", "7.9")),
    Compared("Megatron-LM, activation recomputation", "megatron-recompute", lambda _: True, "", ("3.7", "3.4", "25.9", "11.4")),
    Compared("vTrain, GPT on one host of A100 (composed of profiles of a layer)", "vtrain", lambda n: n <= 8, "", ("38.9", "23.7", "57.1", "59.8")),
    Compared("vTrain, GPT on up to 64 hosts", "vtrain", lambda n: n > 8, "", ("19.6", "13.8", "18.6", "24.4")),
)  # fmt: skip
NOTE = """Mean absolute error of the step time in percent. The others' are our reruns of them in 2026 over the whole of each set (Calculon as shipped;
SimuMax with our guess of its networks, its better case; llm-analysis at the efficiencies that its pages advise; last, executed FLOP at half of the
peak); ours are over test rows, but for the recomputation paper, whose ten rows are calibration rows for us, and which Calculon was tuned to. One hardware
file serves all, and no constant belongs to a case."""


def rivals(judged: Iterable[Judged]) -> str:
    """The table, as Markdown."""
    rows = [("measured", "rows", "perfmodel", *TOOLS), ("---", *["--:"] * (2 + len(TOOLS)))]
    studies = {one.study.name: one for one in judged}
    for one in ALL:
        errors = [abs(o.error or 0.0) for o in _of(studies[one.study], one)]
        rows.append((one.name, f"{len(errors):,}", f"**{100 * np.mean(errors):.1f}**", *one.others))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + f"\n\n{NOTE}\n"


def _of(judged: Judged, one: Compared) -> Iterable[Outcome]:
    """Counted times of the set."""
    wanted = {
        row.measurement.id
        for rows in judged.study.configurations
        for row in rows
        if one.devices(row.measurement.devices or 0) and (row.measurement.table or "").startswith(one.table)
    }
    times = [o for o in judged.outcomes if o.counts and o.metric != "peak_memory" and o.id in wanted]
    return [o for o in times if o.split == judged.judged_rows]
