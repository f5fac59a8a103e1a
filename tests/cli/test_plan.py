"""keyfold plan: options that are refused before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli


@pytest.mark.parametrize("words", [("--shadow", "0"), ("--shadow", "-1"), ("--shadow", "all")])
def test_a_number_of_batches_that_can_not_be_is_refused(cli: Cli, shop: Path, words: tuple[str, ...]) -> None:
    result = cli("plan", shop, *words)
    assert result.code == 2
    assert words[1] in result.err
    assert not (shop.parent / ".keyfold").exists()


def test_tables_without_a_shadow_run_are_refused(cli: Cli, shop: Path) -> None:
    result = cli("plan", shop, "--table", "totals")
    assert (result.code, "--table is an option of --shadow" in result.err) == (2, True)
