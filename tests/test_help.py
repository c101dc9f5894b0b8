"""Help texts on 80 columns, and wrong use of every verb answered in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from neuralcpm_bridge.app.cli import app


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, verb in getattr(command, "commands", {}).items():
        yield from walk(verb, (*path, name))


EVERYTHING = dict(walk(typer.main.get_command(app)))
GROUPS = [path for path, command in EVERYTHING.items() if hasattr(command, "commands")]
VERBS = [path for path in EVERYTHING if path not in GROUPS]


def name_of(path: tuple[str, ...]) -> str:
    return " ".join(path) or "neuralcpm"


@pytest.mark.parametrize("path", EVERYTHING, ids=name_of)
def test_help_fits_a_terminal_of_80_columns(path: tuple[str, ...], cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = cli(*path, "--help")
    assert code == 0, err
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(" ".join(["Usage: neuralcpm", *path]))
    assert any(line.startswith("  ") and line.rstrip().endswith((".", ":", ")")) for line in lines), out
    # a verb's options are told in whole: nothing is cut off with dots
    described = [line for line in lines[1:] if "..." in line and "PATH..." not in line]
    assert described == []


@pytest.mark.parametrize("path", VERBS, ids=name_of)
def test_every_option_and_argument_is_explained(path: tuple[str, ...]) -> None:
    for parameter in EVERYTHING[path].params:
        assert getattr(parameter, "help", None), (path, parameter.name)


@pytest.mark.parametrize("path", VERBS, ids=name_of)
def test_wrong_use_is_one_sentence(path: tuple[str, ...], refused) -> None:
    said = refused(*path, "--no-such-option")
    assert "--no-such-option" in said
    assert f"see {' '.join(['neuralcpm', *path])} --help" in said
    if any(parameter.required for parameter in EVERYTHING[path].params):
        assert "Missing" in refused(*path)


@pytest.mark.parametrize("path", GROUPS, ids=name_of)
def test_a_group_alone_shows_its_verbs(path: tuple[str, ...], cli) -> None:
    code, out, err = cli(*path)
    assert code == 2
    assert "Commands:" in out
    assert err == ""


def test_a_slip_of_the_pen(refused) -> None:
    assert "Did you mean" in refused("simlate")


SAID_OTHERWISE = {"simulate": {"mcs", "temperature", "replicates", "snapshots", "frames", "cells"}}
SAID_OTHERWISE |= {"view": {"temperature", "cells"}}
"""Numbers whose bounds depend on others (tests/test_simulate.py, tests/view)."""


@pytest.mark.parametrize("path", VERBS, ids=name_of)
def test_numbers_that_nobody_can_mean_are_refused(path: tuple[str, ...]) -> None:
    for parameter in EVERYTHING[path].params:
        if parameter.min is not None and parameter.name not in SAID_OTHERWISE.get(name_of(path), ()):
            assert parameter.max is not None, parameter.name


def test_a_fit_without_end(refused) -> None:
    assert "10080" in refused("fit", "data.npz", "-o", "run", "--minutes", "inf")


def test_the_root_folder_is_no_fit(refused) -> None:
    assert "fit" in refused("refit", "/", "--with", "uncertain.npz")
