"""The folders of YAML files: "dgx-2" -> hardware/dgx-2.yaml -> Hardware."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from perfmodel.errors import InputError, Place, Problem
from perfmodel.specs import Hardware, Strategy, Variation, Workload
from perfmodel.yamlfile import Document, nearest, read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfmodel.yamlfile import Spec

Kind = Literal["hardware", "workloads", "strategies", "variations"]

SPECS: dict[Kind, type[Spec]] = {
    "hardware": Hardware, "workloads": Workload, "strategies": Strategy, "variations": Variation,
}  # fmt: skip
SINGULAR: dict[Kind, str] = {
    "hardware": "hardware", "workloads": "workload", "strategies": "strategy", "variations": "variation",
}  # fmt: skip

_PACKAGE = Path(__file__).parent
_ROOT = _PACKAGE / "library_data" if (_PACKAGE / "library_data").is_dir() else _PACKAGE.parent


def folder(kind: Kind) -> Path:
    """The folder of one kind: inside an installed wheel, or beside the package in a checkout."""
    return _ROOT / kind


def validation_folder() -> Path:
    """The studies of measured cases."""
    return _ROOT / "validation"


@lru_cache
def names(kind: Kind) -> tuple[str, ...]:
    """Canonical names of what the library holds of one kind, sorted."""
    return tuple(sorted(path.stem for path in folder(kind).glob("*.yaml")))


def is_file(name: str | Path) -> bool:
    """Whether a name means a file rather than an item of the library."""
    path = Path(name)
    try:
        return path.suffix in {".yaml", ".yml"} or path.is_file()
    except OSError:  # too long for a file name
        return False


def path_of(kind: Kind, name: str | Path) -> Path:
    """The file of a library name, or the path itself."""
    return folder(kind) / f"{name}.yaml" if str(name) in names(kind) else Path(name)


def document(kind: Kind, name: str | Path) -> Document:
    """The YAML of a library name or of a path, not yet validated.

    Raises InputError, with near matches, where there is neither.
    """
    if str(name) in names(kind):
        return _copy(_library_document(kind, str(name)))
    if is_file(name):
        return read(Path(name))
    others = [SINGULAR[other] for other in SPECS if str(name) in names(other)]
    hint = (
        f", but a {others[0]}" if others else nearest(str(name), names(kind)) or f"; `perfmodel list {kind}` shows all"
    )
    message = f"no {SINGULAR[kind]} of this name in the library, and no such YAML file{hint}"
    raise InputError([Problem(Place(str(name)), "", message)])


def library_name(kind: Kind, name: str, folder: Path, *, check: bool = False) -> str | Path:
    """A library name as it is, anything else as a path relative to ``folder``.

    Raises InputError, where ``check`` is set, for what is neither.
    """
    if name in names(kind):
        return name
    path = folder / name
    if path.is_file():
        return path
    if check:
        document(kind, name)
    return name


def find(kind: Kind, name: str | Path, overrides: Mapping[str, tuple[object, str]] | None = None) -> Any:
    """The spec of a library name or path, with ``overrides`` {path: (value, option)} applied.

    Raises InputError with every fault of the file and of the overrides.
    """
    if not overrides and str(name) in names(kind):
        return _library_spec(kind, str(name))
    source = document(kind, name)
    source.override_all(overrides or {})
    return source.validate(SPECS[kind])


@lru_cache(maxsize=512)
def _library_document(kind: Kind, name: str) -> Document:
    return read(folder(kind) / f"{name}.yaml", shown=f"{kind}/{name}.yaml")


@lru_cache(maxsize=512)
def _library_spec(kind: Kind, name: str) -> Any:
    return _library_document(kind, name).validate(SPECS[kind])


def _copy(source: Document) -> Document:
    def fresh(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: fresh(value) for key, value in node.items()}
        return [fresh(value) for value in node] if isinstance(node, list) else node

    return Document(source.file, fresh(source.data), dict(source.places))
