"""The table of operations and sources is complete: a new command or source has its place in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from keyfold.cli.registry import app as command_line
from keyfold.engine.sources.connectors import SOURCES
from tests.core import CORE
from tests.operations.operations import ELSEWHERE, OPERATIONS, READING, id_of
from tests.operations.sources import CASES, ENDLESS


def test_every_kind_of_source_is_in_the_table() -> None:
    assert {case.kind for case in CASES.values()} | ENDLESS == set(SOURCES)


def test_every_command_that_changes_state_is_in_the_table() -> None:
    known = {*OPERATIONS, *ELSEWHERE, *READING}
    found = set(commands(typer.main.get_command(command_line), ()))
    assert found <= known, f"say in tests/operations/operations.py what these do: {sorted(found - known)}"


def commands(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    """The words of all commands, without their former names."""
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from commands(below, (*path, name))
    if not hasattr(command, "commands"):
        yield " ".join(path)


def test_the_operations_that_are_always_tested_exist() -> None:
    listed = re.findall(r"\[(.*)\]", CORE["operations/test_operations.py"])
    assert listed
    assert set(listed) <= {id_of(name) for name, one in OPERATIONS.items() if one.quick}
