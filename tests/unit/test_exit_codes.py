"""The unit file in the docs restarts what a restart can mend, by the exit codes that the command line has."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

from keyfold.cli.main import code_of
from keyfold.errors import BadName, HomeLocked, QueryFailed
from tests.docs.doc_pages import blocks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "operate.md"


@pytest.fixture
def service() -> configparser.SectionProxy:
    """The section of the unit file that says how the app is run."""
    (unit,) = (one.text for one in blocks(PAGE) if one.title and one.title.endswith(".service"))
    found = configparser.ConfigParser()
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(unit)
    return found["Service"]


def test_the_unit_file_does_not_restart_an_app_that_is_wrong_or_whose_home_is_held(
    service: configparser.SectionProxy,
) -> None:
    assert service["Restart"] == "on-failure"
    never = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert never == {code_of(BadName("x")), code_of(HomeLocked("x"))} == {2, 3}


def test_the_unit_file_restarts_an_app_that_failed_or_waits_for_a_command(
    service: configparser.SectionProxy,
) -> None:
    ended_soon = HomeLocked("a command holds the home")
    ended_soon.passes = True
    never = service["RestartPreventExitStatus"].split()
    for error in (QueryFailed("x", app="a", table="t", batch=3), ended_soon):
        assert code_of(error) == 1
        assert str(code_of(error)) not in never


def test_the_table_of_exit_codes_says_the_same(service: configparser.SectionProxy) -> None:
    rows = re.findall(r"^\| (\d) \| .* \| (yes|no)\b.* \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert [code for code, _ in rows] == ["0", "1", "2", "3"]
    no_failure = {"0"}
    never = {code for code, restart in rows if restart == "no"} - no_failure
    assert never == set(service["RestartPreventExitStatus"].split())
