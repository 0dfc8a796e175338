"""Write docs/systems.md: every published system, how it is expressed here, and what checks it.

python tools/systems_page.py
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
PAGE = ROOT / "docs" / "systems.md"
HEAD = """# Systems

Published systems that this library is to express, by their number in the list that it was built from: 000 are architectures of data
parallelism, 001 training at large scale, 004 decentralised and compressed training; A is the anchor of its list. `perfmodel validate systems` holds those with a folder
in [validation/systems](../validation/systems/README.md) to their checks and says which pass: *published* figures that were readable at
their source, *oracles* that a formula or a planner must reproduce, *limits* and orderings. `python tools/systems_page.py` writes this page.

"""


def page() -> str:
    """The text of the page."""
    from perfmodel.validation.systems.listing import rows

    every = rows()
    expressed = [row for row in every if not row.expressed.startswith("not yet")]
    checked = [row for row in every if row.checked]
    count = f"{len(every)} entries: {len(expressed)} are expressed, {len(checked)} of them checked.\n\n"
    lines = ["| entry | system | how it is expressed | where it is checked |", "|---|---|---|---|"]
    lines += [f"| {row.entry} | {row.name} | {row.expressed} | {row.checked} |" for row in every]
    return HEAD + count + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
