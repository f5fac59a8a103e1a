"""keyfold plan: what is refused before anything is started; what it and migrate print of a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli, write


@pytest.mark.parametrize("words", [("--shadow", "0"), ("--shadow", "-1"), ("--shadow", "all")])
def test_a_number_of_batches_that_can_not_be_is_refused(cli: Cli, shop: Path, words: tuple[str, ...]) -> None:
    result = cli("plan", shop, *words)
    assert result.code == 2
    assert words[1] in result.err
    assert not (shop.parent / ".keyfold").exists()


def test_tables_without_a_shadow_run_are_refused(cli: Cli, shop: Path) -> None:
    result = cli("plan", shop, "--table", "totals")
    assert (result.code, "--table is an option of --shadow" in result.err) == (2, True)


APP = """
import keyfold as kf

app = kf.App("shop")
schema = "k string, x int"
orders = app.stream("orders", kf.files("data"), schema, history="7 days", shared=True)
totals = orders{where}.by("k").table("totals", n="count(*)"{more}, history="30 days")
totals.changes().by("n").table("sizes", keys="count(*)")
orders.by("k").table({name}, n="count(*)"{more})
"""
TOLD = "history: starts over; changes up to batch 0 belong to the old definition and are dropped"


def declare(directory: Path, more: str = "", where: str = "", name: str = '"old"') -> None:
    write(directory / "shop.py", APP.format(more=more, where=where, name=name))


@pytest.mark.jvm
def test_a_change_is_announced_with_the_history_that_ends_and_the_rebuild_that_fills_a_column(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "0.json", "".join(f'{{"k": "{k}", "x": {x}}}\n' for x, k in enumerate("aab")))
    declare(tmp_path)
    assert cli("run", "shop.py", "--drain").code == 0

    # What others have read can't be filtered differently, but be rebuilt together with them.
    declare(tmp_path, where='.where("x > 0")')
    refused = cli("plan", "shop.py")
    assert (refused.code, TOLD in refused.out) == (1, False)
    together = "totals: keyfold rebuild shop.py totals --with-readers follows the change with rows that its"
    assert together in refused.out
    assert cli("rebuild", "shop.py", "totals", "--with-readers").code == 0
    assert [(row["k"], row["n"]) for row in cli("rows", "shop.totals", "--json").json] == [("a", 1), ("b", 1)]

    declare(tmp_path, more=', total="sum(x)"', where='.where("x > 0")', name='"new", was="old"')
    told = cli("plan", "shop.py")
    assert told.code == 1, told.err
    assert " ".join(told.out.split()).count(TOLD) == 1, "the other table keeps none"
    readers = (
        "totals: keyfold rebuild shop.py totals --with-readers fills total from rows that its streams have"
    )
    renamed = "new: keyfold rebuild shop.py new fills total from rows that its streams have recorded since"
    assert readers in told.out
    assert "and rebuilds sizes with it" in told.out
    assert renamed in told.out
    migrated = cli("migrate", "shop.py")
    assert migrated.code == 0, migrated.err
    assert f"totals: total: starts empty; {TOLD}\n" in migrated.err
    assert readers in migrated.err
    assert renamed in migrated.err
    # It does what it says.
    assert cli("rebuild", "shop.py", "totals", "--with-readers").code == 0
    assert cli("rebuild", "shop.py", "new").code == 0
    assert [(row["k"], row["total"]) for row in cli("rows", "shop.totals", "--json").json] == [
        ("a", 1),
        ("b", 2),
    ]
    assert [(row["k"], row["total"]) for row in cli("rows", "shop.new", "--json").json] == [
        ("a", 1),
        ("b", 2),
    ]
    assert {row["n"]: row["keys"] for row in cli("rows", "shop.sizes", "--json").json} == {1: 2}
