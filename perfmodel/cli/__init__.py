"""The command line: one typer command for each public function, no arithmetic, no formatting decisions."""

from perfmodel.cli.app import main

__all__ = ["main", "run"]


def run() -> None:
    """Entry point of the installed script."""
    import gc
    import sys

    gc.set_threshold(100_000, 50, 50)  # a tenth of the start is collecting what the imports made
    sys.exit(main())
