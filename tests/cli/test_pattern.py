"""`keyfold pattern explain`: what each row does, found out by running the pattern."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli

APP = """
import keyfold as kf

app = kf.App("bank")
cards = app.stream("cards", kf.rows([]), "card string, amount double, at timestamp", time="at")
probe, strike = kf.step("probe", "amount < 1", times=2), kf.step("strike", "amount > 100 * prev.amount")
honest = kf.no("honest", "100 / amount = 5")
steps = probe >> honest >> strike
cards.by("card").pattern("card_testing", steps, within="10 minutes", returns={"lost": "strike[0].amount"})
totals = cards.by("card").table("totals", n="count(*)")
busy = kf.step("busy", "n > 9")
totals.changes(previous=True).by("card").pattern("of_changes", busy, order="arrival")
mean = "(array_sum(cheap.amount) + amount) / (size(cheap) + 1) < 100"
means = kf.step("cheap", mean, times="+", strict=True).then(kf.step("dear"))
cards.by("card").pattern("means", means, within="10 minutes")

more = app.stream("more", kf.rows([]), "card string, amount double, at timestamp", time="at")
small, steep = kf.step("small", "amount < 9"), kf.step("steep", "1 / (amount - prev.amount) > 0.5")
cards.union(more).by("card").pattern("of_both", small >> steep, within="10 minutes")
"""


def row(card: str, minute: int, amount: float) -> dict[str, Any]:
    return {"card": card, "amount": amount, "at": f"2026-01-01T00:{minute:02d}:00Z"}


ROWS = [
    *(row("x", n, amount) for n, amount in enumerate([0.5, 0.6, 20, 50, 0.7, 600, 0.0])),
    row("y", 3, 600),
    {"card": None, "amount": 1, "at": "2026-01-01T00:00:00Z"},
]
WHAT = {
    1: "probe takes it",
    2: "probe takes it after probe 1; probe takes it",
    3: "no step's condition is true; probe 1, probe 2 ends: strike can't come any more: honest came",
    4: "no step's condition is true",
    5: "probe takes it after probe 2; probe takes it",
    6: "strike takes it after probe 2, probe 5; probe 5 ends: ruled out by a match: skip past_last; "
    "MATCH probe 2, probe 5, strike 6",
}


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "bank.py").write_text(APP)
    return tmp_path / "bank.py"


@pytest.mark.jvm
def test_each_row_is_told_with_what_took_it_and_why_not(cli: Cli, app: Path) -> None:
    file = app.with_name("rows.json")
    file.write_text(json.dumps(ROWS))
    found = cli("pattern", "explain", app, "card_testing", "--rows", file, "--json")
    assert found.code == 0, found.err
    told = {step["number"]: step for step in found.json if step["key"] == {"card": "x"}}
    assert {n: told[n]["what"] for n in WHAT} == WHAT
    assert told[6]["true"] == ["strike"]
    assert told[6]["row"] == {"card": "x", "amount": 600.0, "at": "2026-01-01T00:05:00.000Z"}
    assert told[5]["waiting"] == [
        {"match": [{"number": 2, "step": "probe"}, {"number": 5, "step": "probe"}], "for": ["strike"]},
        {"match": [{"number": 5, "step": "probe"}], "for": ["probe"]},
    ]
    assert [s["what"] for s in found.json if s["key"] == {"card": "y"}] == ["no step's condition is true"]
    refused = sorted(s["what"] for s in found.json if s["number"] is None and s["rejected"])
    assert refused[0].startswith("rejected: [DIVIDE_BY_ZERO]")
    assert refused[1:] == ["rejected: key card is null"]
    file.write_text("\n".join(json.dumps(r) for r in ROWS[:2]))
    shown = cli("pattern", "explain", app, "bank.card_testing", "--rows", file)
    assert "probe takes it after probe 1" in shown.out
    assert "probe 1, probe 2 ends: within is over" in shown.out


@pytest.mark.jvm
def test_a_match_that_waits_for_an_earlier_one_is_told(cli: Cli, app: Path) -> None:
    file = app.with_name("rows.json")
    file.write_text(json.dumps([row("x", n, price) for n, price in enumerate([10, 60, 200, 90, 500])]))
    found = cli("pattern", "explain", app, "means", "--rows", file, "--json").json
    (held,) = found[2]["held"]
    assert [[t["number"] for t in held[what]] for what in ("match", "behind")] == [[2, 3], [1, 2, 3]]
    assert "cheap 2, dear 3 is complete, and waits for cheap 1, cheap 2, cheap 3" in found[2]["what"]
    assert found[2]["matches"] == []
    assert "cheap 2, dear 3 ends: ruled out by a match: skip past_last" in found[4]["what"]
    assert found[4]["what"].endswith("MATCH cheap 1, cheap 2, cheap 3, cheap 4, dear 5")


@pytest.mark.jvm
def test_rows_of_one_of_several_streams_are_told_each_once(cli: Cli, app: Path) -> None:
    file = app.with_name("rows.json")
    card = "a\u2028b"
    rows = [row(card, n, amount) for n, amount in enumerate([1, 1, 2])]
    text = "\n  \n".join(json.dumps(r, ensure_ascii=False) for r in rows)
    file.write_text(f"{text}\r\n \n", "utf-8-sig")
    found = cli("pattern", "explain", app, "of_both", "--stream", "cards", "--rows", file, "--json")
    assert found.code == 0, found.err
    told = [(step["key"].get("card"), step["number"], step["what"]) for step in found.json]
    assert [step[:2] for step in told[:3]] == [(card, 1), (card, 2), (card, 3)]
    assert told[0][2] == "small takes it"
    assert told[1][2].startswith("rejected: [DIVIDE_BY_ZERO]")
    assert told[2][2].endswith("; MATCH small 1, steep 3")
    assert not any(step["rejected"] for step in found.json[2:])


@pytest.mark.parametrize(
    ("words", "text", "said"),
    [
        (["card_tsting"], "[]", "no pattern 'card_tsting'.*did you mean 'card_testing'"),
        (["totals"], "[]", "no pattern 'totals'"),
        (["card_testing", "--stream", "carts"], "[]", "no stream 'carts'.*did you mean 'cards'"),
        (
            ["of_changes"],
            "[]",
            "of_changes reads the changes of totals, and explain needs rows .*try: declare the same",
        ),
        (["of_both"], "[]", "of_both reads several streams.*try: --stream, one of: cards, more"),
        (["card_testing"], None, "cannot read the rows"),
        (["card_testing"], "{", "the rows are not JSON"),
        (["card_testing"], "[1]", "row 1 is not an object"),
        (["card_testing"], "", "the file has no rows"),
    ],
)
def test_what_is_wrong_with_the_question_is_said(
    cli: Cli, app: Path, words: list[str], text: str | None, said: str
) -> None:
    file = app.with_name("rows.json")
    if text is not None:
        file.write_text(text)
    found = cli("pattern", "explain", app, words[0], "--rows", file, *words[1:])
    assert (found.code, found.out) == (2, "")
    assert re.search(said, " ".join(found.err.split())), found.err
