"""File -> text, of bounded size: the files are untrusted input, and what a compressed one expands to counts."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING

from perfmodel.errors import InputError, Place, Problem

if TYPE_CHECKING:
    from pathlib import Path


def read_text(path: Path, file: str, kind: str, max_bytes: int) -> str:
    """The text of a UTF-8 file, plain or gzipped; raises InputError where there is none to read.

    Args:
        path: the file; a name that ends in ``.gz`` is decompressed.
        file: what faults call it.
        kind: what it should be, for the faults: "YAML", "CSV".
        max_bytes: the most it may hold once decompressed.
    """
    try:
        if path.is_dir():
            raise _refused(file, f"is a directory, not a {kind} file")
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            raw = stream.read(max_bytes + 1)
        if len(raw) > max_bytes:
            raise _refused(file, f"holds more than {max_bytes / 1e6:.0f} MB, too large for a {kind} file")
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(file, f"is no UTF-8 text (byte {error.start})") from error
    except gzip.BadGzipFile as error:
        raise _refused(file, "is not compressed by gzip, as its name says") from error
    except (EOFError, zlib.error) as error:
        raise _refused(file, "is compressed, but damaged or cut off") from error
    except OSError as error:
        raise _refused(file, f"cannot be read: {error.strerror or error}") from error


def _refused(file: str, message: str) -> InputError:
    return InputError([Problem(Place(file), "", message)])
