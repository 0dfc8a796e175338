"""The command line: one typer command for each public function, no arithmetic, no formatting decisions."""

from perfmodel.cli.app import main

__all__ = ["main", "run"]


def run() -> None:
    """Entry point of the installed script."""
    import sys

    sys.exit(main())
