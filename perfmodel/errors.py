"""Everything perfmodel raises on purpose.

* PerfModelError
  x InputError      something the user wrote is wrong; holds every `Problem` found
  x StoppedError    the user stopped a long search; says how it goes on
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written: a file with line and column, or a command-line option."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault, printed the way compilers do, so that editors and CI can jump to it."""

    place: Place
    path: str
    message: str

    def __str__(self) -> str:
        option = self.place.file.lstrip("-").replace("-", "_")
        named = not self.path or option == self.path.rpartition(".")[2]
        where = str(self.place) if named else f"{self.place}: {self.path}"
        return f"{where}: {self.message}"


class PerfModelError(Exception):
    """Base of all expected errors; the command line prints these without a traceback."""


class StoppedError(PerfModelError):
    """The user stopped a long search; the message says how it goes on."""


class InputError(PerfModelError):
    """Bad input: a YAML file, an option, or a strategy that the model or machine cannot take."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Keep the problems in the order in which they were found."""
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[Problem, ...]]]:
        """Pickle by the problems, not by their text."""
        return type(self), (self.problems,)
