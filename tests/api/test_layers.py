"""Imports point down one list, never in a circle, and heavy modules wait until they are used."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[2] / "perfmodel"
LAYERS = [
    "__main__", "cli", "api", "reporting", "calibration", "traces", "measuring", "validation", "comparison", "planner", "job", "variation",
    "prediction", "chain", "schedule", "sync", "cost", "parallel", "graph",
    "library", "specs", "formulas", "timeline", "yamlfile", "yamltext", "csvfile", "textfile", "processes", "units", "origin", "errors", "__init__",
]  # fmt: skip
"""From the top down; what stands in a line may import what stands after it."""
HEAVY = {"distributed", "matplotlib", "pandas", "pyarrow", "rich", "scipy"}
MODULES = {".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
           for path in ROOT.rglob("*.py")}  # fmt: skip
every_module = pytest.mark.parametrize("module", sorted(MODULES))


def layer(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imported(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Modules that statements import, with the line; of ``from a import b`` both a and a.b where that is a module."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: relative import"
            yield str(node.module), node.lineno
            within = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((name, node.lineno) for name in within if name in MODULES)


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Statements that run when the module is imported: outside functions, not for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_import(child)


def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def test_every_module_has_a_layer() -> None:
    assert {layer(module) for module in MODULES} == set(LAYERS)


@every_module
def test_imports_point_down(module: str) -> None:
    """Also those inside functions and for type checkers; the package itself hands out the API on first use."""
    if module == "perfmodel":
        return
    own = layer(module)
    upward = [
        f"{MODULES[module]}:{line} imports {name} from above"
        for name, line in imported(ast.walk(tree(module)))
        if name.startswith("perfmodel.") and layer(name) != own and LAYERS.index(layer(name)) < LAYERS.index(own)
    ]
    assert upward == []


@every_module
def test_heavy_modules_are_imported_where_they_are_used(module: str) -> None:
    names = {name.partition(".")[0] for name, _ in imported(at_import(tree(module)))}
    assert names & HEAVY == set()


def test_no_import_cycles() -> None:
    below = {m: {name for name, _ in imported(at_import(tree(m))) if name in MODULES and name != m} for m in MODULES}
    while free := [module for module, needs in below.items() if not needs]:
        below = {module: needs - set(free) for module, needs in below.items() if module not in free}
    assert below == {}, "modules that wait for one another"


def test_the_checks_see_what_they_should() -> None:
    code = "import scipy.stats\nfrom perfmodel import units\ndef f():\n    import pandas\nif TYPE_CHECKING:\n    import rich\n"
    parsed = ast.parse(code)
    assert {name for name, _ in imported(at_import(parsed))} == {"scipy.stats", "perfmodel", "perfmodel.units"}
    assert {name for name, _ in imported(ast.walk(parsed))} >= {"pandas", "rich"}
