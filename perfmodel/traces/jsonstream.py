"""JSON of any length, one element at a time: only the element in hand is ever held."""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, Any

from perfmodel.traces.opening import fault

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import BinaryIO

    from perfmodel.errors import InputError

CHUNK = 2**20
MARGIN = CHUNK // 16
"""Characters that are read ahead of an element, so that most are whole."""
LOOKAHEAD = 16
"""Characters at the end within which a value may go on: a word that is begun, a number before its fraction."""
LARGEST = 32 * 2**20
"""Characters of one element: the largest events hold stacks and shapes, some kilobytes."""
_SPACE = re.compile(r"[ \t\n\r]*")
_BETWEEN = re.compile(r"[ \t\n\r]*(,?)[ \t\n\r]*")


class JsonStream:
    """A JSON text that is read as it is asked for."""

    def __init__(self, stream: BinaryIO, file: str) -> None:
        """Read nothing yet."""
        self._stream, self._file = stream, file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._scan = json.JSONDecoder(parse_constant=float).raw_decode
        self._text, self._at, self._ended, self._passed = "", 0, False, 0

    def members(self, lists: Collection[str]) -> Iterator[tuple[str, Any]]:
        """Members of the object at the top; of those named in ``lists``, each element apart.

        A list at the top is a member without a name. Raises InputError where the text is no JSON.
        """
        first = self._next()
        if first not in {"[", "{"}:
            raise fault(self._file, "is no JSON" if first else "is empty")
        yield from (("", element) for element in self._elements()) if first == "[" else self._pairs(lists)
        if self._next():
            raise self._broken("there is more after its end")

    def _pairs(self, lists: Collection[str]) -> Iterator[tuple[str, Any]]:
        self._at += 1
        if self._next() == "}":
            self._at += 1
            return
        while True:
            key = self._value()
            if not isinstance(key, str) or self._next() != ":":
                raise self._broken("a key and a colon are wanted") if self._next() else self._cut()
            self._at += 1
            if self._next() == "[" and key in lists:
                yield from ((key, element) for element in self._elements())
            else:
                yield key, self._value()
            if self._closed("}"):
                return

    def _elements(self) -> Iterator[Any]:
        """Elements of the list that begins here."""
        self._at += 1
        if self._next() == "]":
            self._at += 1
            return
        scan, between = self._scan, _BETWEEN.match
        while True:
            if len(self._text) - self._at < MARGIN:
                self._more()
            try:
                value, end = scan(self._text, self._at)
                follows = between(self._text, end)
            except (ValueError, RecursionError):
                follows = None
            if follows and follows[1] and follows.end() < len(self._text):
                self._at = follows.end()
                yield value
            else:  # the end of the list, or of what was read
                yield self._value()
                if self._closed("]"):
                    return

    def _value(self) -> Any:
        """The value that begins here, however much has to be read for it."""
        self._next()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except RecursionError:
                raise fault(self._file, "is nested too deeply") from None
            except json.JSONDecodeError as error:
                self._grow(error)
                continue
            except ValueError:
                raise self._broken("a number has thousands of digits") from None
            if self._ended or len(self._text) - end >= LOOKAHEAD:  # a number may go on
                self._at = end
                return value
            self._more()

    def _grow(self, error: json.JSONDecodeError) -> None:
        """Read on where a value may only be unfinished."""
        held = len(self._text) - self._at
        rest = self._text[error.pos :]
        unfinished = error.msg.startswith("Unterminated") or not rest.strip()
        if not unfinished and (len(rest) > LOOKAHEAD or (self._ended and not _is_begun(rest.strip()))):
            raise self._broken(error.msg[0].lower() + error.msg[1:])
        if self._ended:
            raise self._cut()
        if held > LARGEST:
            raise self._broken(f"one element is longer than {LARGEST // 2**20} MB")
        self._more(max(CHUNK, held))

    def _closed(self, end: str) -> bool:
        """Whether the container ends here; else the comma before the next element is passed."""
        mark = self._next()
        if not mark:
            raise self._cut()
        if mark not in {",", end}:
            raise self._broken(f"a comma or {end} is wanted")
        self._at += 1
        return mark == end

    def _next(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._more()

    def _more(self, size: int = CHUNK) -> None:
        """Read on; what was passed is forgotten."""
        if not self._ended:
            raw = self._stream.read(size)
            self._ended = not raw
            self._passed += self._at
            self._text = self._text[self._at :] + self._decoder.decode(raw, final=not raw)
            self._at = 0

    def _cut(self) -> InputError:
        return fault(
            self._file, f"is cut off: its JSON ends in the middle, after {self._passed + self._at:,} characters"
        )

    def _broken(self, what: str) -> InputError:
        return fault(self._file, f"is no JSON at character {self._passed + self._at:,}: {what}")


def _is_begun(rest: str) -> bool:
    """Whether a text is the beginning of a word that JSON knows."""
    return any(word.startswith(rest) for word in ("true", "false", "null", "NaN", "Infinity", "-Infinity"))
