"""The command line and the library are two faces of one thing."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

import perfmodel
from perfmodel import api
from perfmodel.cli.app import app
from perfmodel.cli.options import _JOB
from perfmodel.job import SETTINGS

RENAMED = {"list": "list_items"}
"""`list` would hide Python's own."""
PRESENTATION = {"report"}
"""Functions that the option --format stands for."""
VARIANTS = {
    "bubbles": "predict", "losses": "predict", "operators": "predict", "plot_pipeline": "predict", "plot_roofline": "predict",
    "write_timeline": "predict",
    "compare_reports": "compare", "compare_trace": "trace",
    "validate_systems": "validate", "validate_tables": "validate",
}  # fmt: skip
"""What an option (`predict --ops`) or another kind of argument (`validate ops`, `compare` of JSON files and traces) asks for."""
ROOT = Path(__file__).parents[2]


COMMANDS: dict[str, Any] = {
    f"{prefix}{c.name or getattr(c.callback, '__name__', '')}": c.callback
    for prefix, one in [("", app), *((f"{g.name}_", g.typer_instance) for g in app.registered_groups)]
    for c in one.registered_commands  # type: ignore[union-attr]
}


def test_one_command_for_each_function() -> None:
    functions = {VARIANTS.get(name, name) for name in api.__all__} - PRESENTATION
    assert {RENAMED.get(name, name) for name in COMMANDS} == functions


def test_each_command_bears_the_name_of_its_function() -> None:
    for name, callback in COMMANDS.items():
        assert RENAMED.get(name, name).endswith(callback.__name__)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_and_option_says_what_it_does(name: str) -> None:
    callback = COMMANDS[name]
    assert (callback.__doc__ or "").strip().endswith((".", ")"))
    for parameter in inspect.signature(callback).parameters.values():
        settings = getattr(parameter.annotation, "__metadata__", [None])[0]
        if settings is not None:
            assert settings.help or settings.metavar, parameter.name


def test_each_option_of_a_job_is_a_setting() -> None:
    assert _JOB.keys() - {"strategy", "sets"} == SETTINGS.keys()


@pytest.mark.parametrize("name", api.__all__)
def test_each_function_is_documented(name: str) -> None:
    function = getattr(api, name)
    doc = inspect.getdoc(function) or ""
    assert doc
    many = [p for p in inspect.signature(function).parameters if not p.startswith("_")]
    if "Args:" in doc:
        assert all(f"\n    {argument}: " in doc for argument in many)


def test_every_public_name_is_documented() -> None:
    missing = []
    for path in (ROOT / "perfmodel").rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if name.endswith("__main__"):
            continue
        module = importlib.import_module(name)
        assert module.__doc__, name
        for what, thing in vars(module).items():
            own = getattr(thing, "__module__", None) == name and (inspect.isroutine(thing) or inspect.isclass(thing))
            if own and not what.startswith("_") and not thing.__doc__:
                missing.append(f"{name}.{what}")
    assert missing == []


def test_the_package_hands_out_the_api() -> None:
    assert set(perfmodel.__all__) == {*api.__all__, "InputError", "PerfModelError"}
    assert perfmodel.predict is api.predict
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = perfmodel.nothing


@pytest.mark.parametrize("name", ["report", "validate"])
def test_a_subpackage_does_not_hide_a_function(name: str) -> None:
    assert callable(getattr(perfmodel, name))
