"""Files as streams: gzip, tar, and what somebody made to harm."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from perfmodel.errors import InputError
from perfmodel.traces.opening import FREE, sources

if TYPE_CHECKING:
    from pathlib import Path


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, raw in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(raw)
            tar.addfile(about, io.BytesIO(raw))
    return path


def test_plain_and_compressed_files_are_told_by_their_first_bytes(tmp_path: Path) -> None:
    for name, raw in (("a.json", b"[1]"), ("b.json", gzip.compress(b"[1]"))):
        (tmp_path / name).write_bytes(raw)
        assert [source.stream.read() for source in sources(tmp_path / name)] == [b"[1]"]


def test_each_trace_of_an_archive_is_one(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "ranks.tar.gz",
        {"run/0.json": b"[0]", "run/._0.json": b"?", "run/notes.txt": b"?", "run/1.json": b"[1]"},
    )
    found = [(source.name, source.stream.read()) for source in sources(path)]
    assert found == [(f"{path}:run/0.json", b"[0]"), (f"{path}:run/1.json", b"[1]")]


def test_an_archive_without_traces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is an archive without traces \(.json, .et, .pb\)"):
        list(sources(archive(tmp_path / "ranks.tar.gz", {"notes.txt": b"?"})))


def read_all(path: Path) -> None:
    for source in sources(path):
        while source.stream.read(2**20):
            pass


def test_a_decompression_bomb_is_refused_before_it_fills_anything(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", 9) as stream:
        for _ in range(2 * FREE // 2**20):
            stream.write(b" " * 2**20)
    assert path.stat().st_size < 200_000
    with pytest.raises(
        InputError, match="expands more than 200 times, which no trace does; refused as a decompression bomb"
    ):
        read_all(path)


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (gzip.compress(b"[1, 2, 3]", mtime=0)[:-6], "is compressed, but cut off"),
        (b"\x1f\x8bhello, this is no gzip", "is compressed, but damaged"),
    ],
)
def test_broken_compression_is_one_line(tmp_path: Path, raw: bytes, fault: str) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(raw)
    with pytest.raises(InputError) as caught:
        read_all(path)
    assert str(caught.value) == f"{path}: {fault}"


def test_missing_files_and_folders_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory; give the files in it"):
        list(sources(tmp_path))
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        list(sources(tmp_path / "none.json"))
