"""Write docs/validation.md from a run of all studies, or check that it has not drifted.

Usage: python tools/validation_page.py [--check]
"""

from __future__ import annotations

import argparse
import csv
import importlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from perfmodel.reporting.report import Section
    from perfmodel.validation.run import Judged

PAGE = ROOT / "docs" / "validation.md"
README = ROOT / "README.md"
BLOCK = re.compile("<!-- begin rivals -->.*<!-- end rivals -->", re.DOTALL)
OPERATORS = ROOT / "validation" / "operators.csv"
"""Written by `tools/calibrate_library.py --table`."""
PICTURE = ROOT / "docs" / "images" / "validation.png"
INTRO = """# Validation

This page is written by `python tools/validation_page.py` from a run of all studies, and a test holds it to them. Each study is a folder
of `validation/` with the measured figures, their citation and what is missing or assumed; `perfmodel validate STUDY` predicts it again.

Constants are fitted on rows of the split *calibration* only; rows of the split *test* judge. Of several figures of one run the most
direct one counts. Budgets are stated on test rows where a study has any; no run raises one, and decisions 53, 76, 90, 96, 108, 114 to 117 name those that were set anew.

![Measured against predicted step time](images/validation.png)
"""
OPERATORS_INTRO = """## Operators

Kernel timings of the tables that `tools/calibrations.yaml` names, one line for each device, operation and precision: constants are
fitted on some of the shapes (*fitted*), the errors are those on shapes held apart (*held out*), in percent of the measured time.
*Constant efficiency* and *bare roofline* are two simple forms on the same shapes: the first with one share of peak and of bandwidth fitted to the same
timings, the second with none. Aims: products 8 / 25 %, attention and convolutions 12 %, memory-bound kernels 10 %; what misses its aim
is **bold**. The rows of one device come from one source.

Where they miss: *fp8 products* of inference libraries carry scales for each token or block and come from several kernels; *convolutions* are one
of some ten algorithms each, of which this model knows two, and the constants of the library are those of whole networks, not of these
tables (decision 21); *recurrent cells* and *grouped products* of experts at small batches are bound by launches of a library that the tables
do not name; *L40S and RTX PRO 6000* have an L2 as large as the operands, which is not modelled; *norms* of the small tables
fall between two kernels of the library.
"""
AIMS = {"gemm": 0.08, "attention": 0.12, "convolution": 0.12, "stream": 0.10, "reduction": 0.10}
TAIL_AIM = 0.25


def operators() -> Section:
    """The held-out errors of every fit of the library beside those of simple forms."""
    from perfmodel.reporting.report import Section

    with OPERATORS.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))

    def percent(text: str, aim: float = 10.0) -> str:
        shown = f"{100 * float(text):.1f}" if text else ""
        return f"**{shown}**" if text and float(text) > aim else shown

    def line(row: dict[str, str]) -> tuple[str, ...]:
        tail = TAIL_AIM if row["op"] == "gemm" else 10.0
        return (
            row["device"], row["op"], row["precision"], row["points"], row["held_out"],
            percent(row["median"], AIMS.get(row["op"], 10.0)), percent(row["p90"], tail),
            percent(row["constant efficiency"]), percent(row["bare roofline"]),
        )  # fmt: skip

    header = (
        "device",
        "operation",
        "precision",
        "fitted",
        "held out",
        "median",
        "p90",
        "constant efficiency",
        "bare roofline",
    )
    return Section("Fits of the library", header, tuple(map(line, rows)), frozenset(range(3, len(header))))


def page(judged: list[Judged]) -> str:
    """The text of the page."""
    from perfmodel.reporting.report import Report
    from perfmodel.reporting.validation import validation_report

    report = validation_report(judged, 20)
    kernels = Report(None, (), (operators(),)).render("markdown")
    messages = importlib.import_module("tools.validation_collectives").collectives()
    studies = Report(None, (), report.sections, report.notes).render("markdown")
    beside = f"## Beside other tools\n\n{importlib.import_module('tools.validation_rivals').rivals(judged)}"
    return f"{INTRO}\n{studies}\n{beside}\n{OPERATORS_INTRO}\n{kernels}\n{messages}"


def readme(judged: list[Judged]) -> str:
    """The README with the table of other tools as it is now."""
    table = importlib.import_module("tools.validation_rivals").rivals(judged)
    return BLOCK.sub(lambda _: f"<!-- begin rivals -->\n{table}<!-- end rivals -->", README.read_text(encoding="utf-8"))


def main() -> int:
    """Run the studies and write (or compare) the page and the README's table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    from perfmodel.reporting.plots import plot_validation
    from perfmodel.validation.run import validate
    from perfmodel.validation.study import load_studies

    judged = validate(load_studies())
    text = page(judged)
    if check:
        return int(
            not PAGE.is_file()
            or PAGE.read_text(encoding="utf-8") != text
            or README.read_text(encoding="utf-8") != readme(judged)
        )
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    plot_validation(judged, PICTURE)
    PAGE.write_text(text, encoding="utf-8")
    README.write_text(readme(judged), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
