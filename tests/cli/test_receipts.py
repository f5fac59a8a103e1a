"""`keyfold forget --check`: whether a receipt is genuine; and what `forget` needs otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyfold.engine.erasure import receipts
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from tests.cli.conftest import ROWS, TOTALS, Cli, make_app


@pytest.fixture
def receipt(tmp_path: Path) -> Path:
    """A receipt of the app shop, which is in its audit log."""
    home = AppHome(tmp_path / "home" / "shop")
    make_app(home, {TOTALS: ROWS[TOTALS]})
    made = receipts.sign(home.storage, {"id": "x", "app": "shop"})
    audit.append(home.storage, audit.entry("forget", None, receipt=receipts.digest(made)))
    file = tmp_path / "erased.json"
    file.write_text(json.dumps(made))
    return file


def test_a_receipt_of_this_home_is_genuine(cli: Cli, receipt: Path) -> None:
    home = ("--home", receipt.parent / "home")
    assert cli("forget", "--check", receipt, *home).out == "genuine; in the audit log\n"
    found = cli("forget", "--check", receipt, *home, "--json")
    assert (found.code, found.json) == (0, {"genuine": True, "in_audit_log": True})
    assert cli("receipt", receipt, *home, "--json").json == found.json, "its former name"
    assert cli("receipt", receipt, "--app", "shop", *home).code == 0


def test_a_receipt_that_was_changed_is_not(cli: Cli, receipt: Path) -> None:
    receipt.write_text(json.dumps({**json.loads(receipt.read_text()), "id": "y"}))
    for words in (("forget", "--check", receipt), ("receipt", receipt)):
        found = cli(*words, "--home", receipt.parent / "home")
        assert (found.code, found.out) == (1, "not genuine; not in the audit log\n")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("forget",), "forget needs a table and a key"),
        (("forget", "totals"), "forget needs a table and a key"),
        (("forget", "--check", "nowhere.json"), "nowhere.json can't be read"),
        (("forget", "totals", "eu", "--check", "x.json"), "--check erases nothing"),
        (("forget", "--check", "x.json", "--why", "so", "--yes"), "given: --why, --yes"),
    ],
)
def test_what_forget_needs_is_said(cli: Cli, receipt: Path, words: tuple[str, ...], answer: str) -> None:
    found = cli(*words, "--home", receipt.parent / "home")
    assert found.code == 2
    assert answer in found.err
