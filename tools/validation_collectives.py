"""The section on collectives of docs/validation.md, out of validation/collectives.csv."""

from __future__ import annotations

import csv
from pathlib import Path

from perfmodel.reporting.report import Report, Section

TABLE = Path(__file__).resolve().parent.parent / "validation" / "collectives.csv"
"""Written by `tools/fit_fabrics.py --table`."""
INTRO = """## Collectives

Timed collectives of the systems that `tools/fabrics.yaml` names, each with one machine of the library: constants of a tier
and library are fitted on calibration rows (*fitted*), errors are those of *held-out* rows of 16 KiB to 4 GiB, median / 90th percentile in
percent of the measured time. Aims: 12 / 30 %, of DGX-2 and AC922 a median of 10 %; what misses its aim is **bold**. A network that no file of the library has
is a machine with another bandwidth, fitted for this table alone.

![Bus bandwidth against size](images/collectives.png)

Where they miss:

- *Arc Pro B60*: oneCCL's all-gather reaches half of the bandwidth of its reduce-scatter, which no topology tells apart.
- *H100 under XLA*: single measurements of the table scatter by two times (an all-gather among eight takes 31 us with 16 KiB and 19 us with
  64 KiB; H100 or H200 is not said).
- *A100 under PyTorch between hosts* (Vidur): rows of two hosts fall from 3.1 to 1.9 ms between 12 and 14 MB, where the library changes its
  protocol; one curve goes through the middle.
- *DGX-1 P100*: broadcasts of NCCL 2 in 2018 wait for a buffer at every device (0.35 ms with eight devices), which later versions do not; an
  all-reduce among eight of 8 bytes to 0.5 MB takes half of its steps' latency; a reduce-scatter of 1 GiB among three takes 87 ms, among four 18.
- *AC922, Scope*: one thread starts all devices, at 17 of 75 GB/s; *AC922, MPI*: 67,108,868 bytes, the one size that is no
  multiple of 16, take as long as more than twice as many.
- *L40S* on eight devices: two runs of the same table differ by a third.
- *Xeon Phi* (Intel MLSL): 153 MB take three to five times as long as 67 MB; one bandwidth goes through the middle.
- *GB200 and GB300, all-to-all* under XLA: a small one takes 12 us among eight and sixteen, 20 us among 32 and 64 us among 72, where the
  model has one cost for each message; from 8 to 40 MB some take twice what smaller and larger ones promise.
- *SummitDev, RTX 3090, gloo, MPI*: few rows, fitted for this table alone.
"""
COLLECTIVES = ("all", "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce", "send")
MEDIAN, TAIL = 0.12, 0.30
NAMED = ("DGX-2", "AC922")
NAMED_MEDIAN = 0.10


def shown(row: dict[str, str] | None) -> str:
    """Median and tail of one collective on one system, bold where it misses its aim."""
    if row is None or not row["median"]:
        return ""
    median, tail = float(row["median"]), float(row["p90"])
    aim = NAMED_MEDIAN if row["system"].startswith(NAMED) else MEDIAN
    text = f"{100 * median:.1f} / {100 * tail:.1f}"
    return f"**{text}**" if median > aim or tail > TAIL else text


def section() -> Section:
    """One line for each system and tier."""
    with TABLE.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    found: dict[tuple[str, str, str], dict[str, dict[str, str]]] = {}
    for row in rows:
        found.setdefault((row["system"], row["hardware"], row["tier"]), {})[row["collective"]] = row
    lines = tuple(
        (*key, by["all"]["points"], by["all"]["held_out"], *(shown(by.get(name)) for name in COLLECTIVES))
        for key, by in found.items()
    )
    header = ("system", "machine", "tier", "fitted", "held out", *COLLECTIVES)
    return Section("Errors by system and collective", header, lines, frozenset(range(3, len(header))))


def collectives() -> str:
    """The section as Markdown."""
    return f"{INTRO}\n{Report(None, (), (section(),)).render('markdown')}"
