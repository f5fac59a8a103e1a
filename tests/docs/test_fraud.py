"""The fraud example: all that is planted is found, and nothing else, also by the commands that it names."""

from __future__ import annotations

import runpy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.testing import Driver, drive
from tests.docs.test_examples import EXAMPLES, moment, read, run_example

pytestmark = pytest.mark.jvm
KEYS = {
    "card_testing": "card",
    "impossible_travel": "card",
    "velocity": "card",
    "account_takeover": "account",
}


def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / "fraud.py"))


def found(rows: list[dict[str, Any]], key: str) -> set[tuple[Any, ...]]:
    cases = {(row[key], row["started"], row["ended"]) for row in rows}
    assert len(cases) == len(rows)
    return cases


def expected(cases: list[tuple[str, str, str]]) -> set[tuple[Any, ...]]:
    return {(key, moment(started), moment(ended)) for key, started, ended in cases}


def push_all(d: Driver, made: dict[str, list[Any]]) -> None:
    for stream, rows in made.items():
        for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            d.push(stream, part)
        d.advance(stream, datetime(2026, 1, 3, tzinfo=UTC))


def test_all_planted_fraud_is_found_and_no_honest_row_is_called_one() -> None:
    fraud = example()
    made, planted = fraud["make"](seed=11)
    loosened(fraud)
    with drive(fraud["app"]) as d:
        push_all(d, made)
        for table, key in KEYS.items():
            assert found(d.rows(table), key) == expected(planted[table]), table
            assert len(planted[table]) == 12
            assert d.late(table) == []
        # The honest rows are almost fraud: each pattern, a little looser, calls some of them so.
        for table, key in KEYS.items():
            assert {row[key] for row in d.rows(f"{table}_loose")} > {case[0] for case in planted[table]}, (
                table
            )


def loosened(fraud: dict[str, Any]) -> None:
    """The same patterns with one limit moved a little, beside the example's own."""
    by_card, here = fraud["payments"].by("card"), fraud["here"]
    probes = kf.step("probe", "amount < 2", times=(2, None))
    by_card.pattern("card_testing_loose", probes >> fraud["strike"], within="10 minutes")
    far = f"{fraud['km']('prev.', '')} > 20 + 150 * {fraud['hours']('prev.', '')}"
    placed = fraud["payments"].where("lat is not null").by("card")
    placed.pattern("impossible_travel_loose", here.then(kf.step("there", far)), within="1 hour")
    by_card.pattern("velocity_loose", kf.step("paid", times=fraud["MOST"]), within="10 minutes")
    steps = fraud["changed"].any(fraud["added"]) >> fraud["transfer"]
    fraud["events"].by("account").pattern("account_takeover_loose", steps, within="1 hour")


def test_the_same_seed_plants_the_same_fraud_and_another_seed_other() -> None:
    make = example()["make"]
    assert make(seed=3) == make(seed=3)
    assert make(seed=3) != make(seed=4)
    assert {table: len(cases) for table, cases in make(each=5)[1].items()} == dict.fromkeys(KEYS, 5)


def test_the_commands_of_the_fraud_example_find_what_was_planted(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = run_example("fraud.py", place, monkeypatch)
    assert capsys.readouterr().out.count(": 12 planted\n") == 4
    _, planted = example()["make"]()
    for table, key in KEYS.items():
        rows = [
            {**row, "started": moment(row["started"]), "ended": moment(row["ended"])}
            for row in read("rows", f"fraud.{table}")
        ]
        assert found(rows, key) == expected(planted[table]), table
    assert all(len(text.splitlines()) > 3 for text in printed.values())
