"""Write docs/validation.md from a run of all studies, or check that it has not drifted.

Usage: python tools/validation_page.py [--check]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from perfmodel.validation.run import Judged

PAGE = ROOT / "docs" / "validation.md"
PICTURE = ROOT / "docs" / "images" / "validation.png"
INTRO = """# Validation

This page is written by `python tools/validation_page.py` from a run of all studies, and a test holds it to them. Each study is a folder
of `validation/` with the measured figures, their citation and what is missing or assumed; `perfmodel validate STUDY` predicts it again.

Constants are fitted on rows of the split *calibration* only; rows of the split *test* judge. Of several figures of one run the most
direct one counts. Budgets are stated on test rows where a study has any, and only ever fall.

![Measured against predicted step time](images/validation.png)
"""


def page(judged: list[Judged]) -> str:
    """The text of the page."""
    from perfmodel.reporting.report import Report
    from perfmodel.reporting.validation import validation_report

    report = validation_report(judged, 20)
    return INTRO + "\n" + Report(None, (), report.sections, report.notes).render("markdown")


def main() -> int:
    """Run the studies and write (or compare) the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    from perfmodel.reporting.plots import plot_validation
    from perfmodel.validation.run import validate
    from perfmodel.validation.study import load_studies

    judged = validate(load_studies())
    text = page(judged)
    if check:
        return int(not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    plot_validation(judged, PICTURE)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
