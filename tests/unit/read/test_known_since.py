"""Columns that a migration added: commands that show them say since when they cover rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from keyfold.engine.storage.known_since import KnownSince
from keyfold.engine.storage.layout import AppHome
from tests.cli.conftest import AT, ROWS, TOTALS, Cli, make_app

SAID = "revenue covers rows since 2026-01-01T12:00:00Z, after batch 7"


def migrated(home: Path) -> None:
    """A home whose table totals has a column that a migration added."""
    app_home = AppHome(home / "shop")
    make_app(app_home, {TOTALS: ROWS[TOTALS]})
    totals = replace(app_home.read_plan().tables["totals"], since={"revenue": KnownSince(AT, 7)})
    app_home.write_plan(app_home.read_plan().with_tables({"totals": totals}))


def test_rows_and_get_say_it_beside_the_rows(cli: Cli, tmp_path: Path) -> None:
    migrated(tmp_path)
    for words in (("rows", "totals"), ("get", "totals", "eu")):
        result = cli(*words, "--home", tmp_path)
        assert (result.code, result.err) == (0, f"keyfold: {SAID}\n")
        # A program reads rows, and nothing else.
        assert cli(*words, "--home", tmp_path, "--json").err == ""


def test_describe_says_it_of_the_app_in_a_home(cli: Cli, shop: Path, tmp_path: Path) -> None:
    assert "covers rows" not in cli("describe", shop, "--home", tmp_path / "none").out
    migrated(tmp_path / "home")
    assert f"totals.{SAID}" in cli("describe", shop, "--home", tmp_path / "home").out
    document = cli("describe", shop, "--home", tmp_path / "home", "--json").json
    assert document["since"] == {"totals": {"revenue": {"at": AT.isoformat(), "batch": 7}}}
    assert "covers rows" not in cli("describe", shop, "--format", "mermaid", "--home", tmp_path / "home").out
