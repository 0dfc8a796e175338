"""The library's YAML files: all load, by name and by path, from a checkout and from a wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args
from zipfile import ZipFile

import pytest

from perfmodel.errors import InputError
from perfmodel.job import kind_of, load_job
from perfmodel.library import SPECS, Kind, document, find, folder, names

ROOT = Path(__file__).parents[2]
KINDS: tuple[Kind, ...] = get_args(Kind)
ITEMS = [(kind, name) for kind in KINDS for name in names(kind)]
KIND_NAME = "gpt2-124m"


@pytest.mark.parametrize(("kind", "name"), ITEMS, ids=[f"{kind}/{name}" for kind, name in ITEMS])
def test_every_file_loads(kind: Kind, name: str) -> None:
    spec = find(kind, name)
    assert isinstance(spec, SPECS[kind])
    assert find(kind, name) is spec
    assert kind_of(name) == kind_of(folder(kind) / f"{name}.yaml") == kind


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_the_files(kind: Kind) -> None:
    assert len(names(kind)) > 5
    assert list(names(kind)) == sorted(path.stem for path in (ROOT / kind).iterdir() if path.suffix == ".yaml")


def test_no_name_stands_for_two_things() -> None:
    every = [name for _, name in ITEMS]
    assert len(every) == len(set(every))


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("workloads", "gpt3-175", "no workload of this name in the library, and no such YAML file; did you mean 'gpt3-175b'"),
        ("hardware", "dgx-a100-80g", "no hardware of this name in the library, and no such YAML file; did you mean 'dgx-a100-80gb'"),
        ("strategies", "zer-1", "no strategy of this name in the library, and no such YAML file; did you mean 'zero-1'"),
        ("hardware", "???", "no hardware of this name in the library, and no such YAML file; `perfmodel list hardware` shows all"),
        ("hardware", "x" * 5000, "no hardware of this name in the library, and no such YAML file; `perfmodel list hardware` shows all"),
        ("hardware", "", "no hardware of this name in the library, and no such YAML file; `perfmodel list hardware` shows all"),
    ],
)  # fmt: skip
def test_unknown_names(kind: Kind, name: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        find(kind, name)
    (problem,) = caught.value.problems
    assert str(problem).startswith(f"{name}: {message}")


def test_an_unknown_name_of_any_kind() -> None:
    with pytest.raises(InputError, match=r"^dgx-22: nothing of this name in the library, .*; did you mean 'dgx-2'"):
        kind_of("dgx-22")


def test_a_name_wins_over_a_file_of_the_same_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / KIND_NAME).write_text("schema: 1\nname: mine\n")
    assert document("workloads", KIND_NAME).file == f"workloads/{KIND_NAME}.yaml"
    assert find("workloads", KIND_NAME, {"training.batch": (8, "--batch")}).training.batch == 8


def test_overrides_leave_the_library_alone() -> None:
    before = find("workloads", KIND_NAME).training.batch
    changed = find("workloads", KIND_NAME, {"training.batch": (before + 1, "--batch")})
    assert changed.training.batch == before + 1
    assert find("workloads", KIND_NAME).training.batch == before
    kept = document("workloads", KIND_NAME)
    assert kept.data["training"]["batch"] == before
    assert kept.place(("training", "batch")).file == f"workloads/{KIND_NAME}.yaml"


def test_an_unknown_setting_is_a_mistake_of_the_caller(fixtures: Path) -> None:
    with pytest.raises(TypeError, match="no setting 'tpp'; did you mean 'tp'"):
        load_job(KIND_NAME, fixtures / "machine.yaml", settings={"tpp": 2})


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wheel")
    call = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-build-isolation",
    ]
    subprocess.run([*call, "--wheel-dir", str(made), str(ROOT)], check=True, timeout=120)  # noqa: S603 - ourselves
    (file,) = made.glob("*.whl")
    return file


class TestWheel:
    def test_holds_every_file(self, wheel: Path) -> None:
        held = set(ZipFile(wheel).namelist())
        for kind, name in ITEMS:
            assert f"perfmodel/library_data/{kind}/{name}.yaml" in held
        modules = {str(path.relative_to(ROOT)) for path in (ROOT / "perfmodel").rglob("*.py")}
        assert modules <= held

    def test_works_elsewhere(self, wheel: Path, tmp_path: Path) -> None:
        ZipFile(wheel).extractall(tmp_path / "site")
        (tmp_path / "work").mkdir()

        def run(*arguments: str) -> str:
            call, there = [sys.executable, *arguments], {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
            return subprocess.run(  # noqa: S603 - ourselves
                call, env=there, cwd=tmp_path / "work", capture_output=True, text=True, check=True, timeout=60
            ).stdout

        assert run("-c", "import perfmodel; print(perfmodel.__file__)").startswith(str(tmp_path))
        listed = run("-m", "perfmodel", "list", "--format", "csv").splitlines()
        assert len(listed) == len(ITEMS) + 1
