"""Run the commands in the documentation, and write (or compare) what they print.

    python tools/docs.py [--check]

A block marked ``console`` begins with ``$ perfmodel …``; what follows is the command's output. Blocks between
``<!-- begin NAME -->`` and ``<!-- end NAME -->`` hold generated text.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
CONSOLE = re.compile(r"```console\n\$ perfmodel ([^\n]*)\n(.*?)```", re.DOTALL)
WIDTH = "110"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder that looks like the checkout; what commands write there is gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for entry in ROOT.iterdir():
            (folder / entry.name).symlink_to(entry)
        yield folder


def run(command: str, folder: Path) -> str:
    """What ``perfmodel COMMAND`` prints to both streams in a folder."""
    from perfmodel.cli import main

    out = io.StringIO()
    environment = patch.dict(os.environ, COLUMNS=WIDTH)
    with environment, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.chdir(folder):
        main(shlex.split(command))
    return out.getvalue()


def rewritten(text: str) -> str:
    """The page with the output of its commands as it is now; later ones may read what earlier ones wrote."""
    with scratch() as folder:

        def block(match: re.Match[str]) -> str:
            return f"```console\n$ perfmodel {match[1]}\n{run(match[1], folder)}```"

        return CONSOLE.sub(block, text)


def pages() -> list[Path]:
    """README and everything under docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def main() -> int:
    """Rewrite the pages, or with --check name those that drifted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    drifted = []
    for page in pages():
        old = page.read_text(encoding="utf-8")
        new = rewritten(old)
        if new != old:
            drifted.append(page.name)
            if not check:
                page.write_text(new, encoding="utf-8")
    print("\n".join(drifted) or "nothing changed")
    return int(check and bool(drifted))


if __name__ == "__main__":
    sys.exit(main())
