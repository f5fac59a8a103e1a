"""Processors with initial=: files that are read, or a savepoint's state, before the rows of the stream."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.testing import drive, shared_session
from tests.process.test_process import Timer, Total

pytestmark = pytest.mark.jvm

SCHEMA = "k string, n long, at timestamp"
OUTPUT = "k string, total long, _op string"


def rows(first: int, count: int) -> list[dict[str, Any]]:
    """Rows of three keys, a second apart."""
    return [
        {"k": "abc"[i % 3], "n": i % 7, "at": f"1970-01-01T00:01:{i:02d}Z"}
        for i in range(first, first + count)
    ]


OLD, NEW = rows(0, 20), rows(20, 12)


def written(directory: Path, found: list[dict[str, Any]], name: str = "a.json") -> Path:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text("".join(json.dumps(row) + "\n" for row in found))
    return directory


def recount(found: list[dict[str, Any]]) -> dict[str, int]:
    total = Counter[str]()
    for row in found:
        total[row["k"]] += row["n"]
    return dict(total)


def totals(d: Any) -> dict[str, int]:
    return {row["k"]: row["total"] for row in d.rows("totals")}


def test_a_processor_begins_with_files_and_goes_on_with_its_stream(tmp_path: Path) -> None:
    history = kf.files(written(tmp_path / "old", OLD), maxFilesPerTrigger=1)
    app = kf.App("shop")
    stream = app.stream("s", kf.rows([]), SCHEMA, time="at", late="2 seconds")
    table = stream.by("k").process("totals", Total, output=OUTPUT, initial=history)
    # Another table reads it: the processor's rows are kept, so that they can be retracted.
    table.changes().by(all="1").table("whole", keys="count(*)", total="sum(total)")
    stream.by("k").process("times", Timer, output="k string, t long", initial=history)
    with drive(app, home=tmp_path / "home") as d:
        assert totals(d) == recount(OLD)
        assert d.rows("whole") == [{"all": 1, "keys": 3, "total": sum(row["n"] for row in OLD)}]
        # The stream repeats the end of the history.
        d.push("s", OLD[-2:] + NEW[:4])
        d.crash()
        d.push("s", NEW[4:])
        assert totals(d) == recount(OLD + NEW)
        assert len(d.rejected("totals")) == 2
        assert d.rows("whole") == [{"all": 1, "keys": 3, "total": sum(row["n"] for row in OLD + NEW)}]
        # Timers that rows of the files have set are moved by those of the stream.
        assert {row["k"]: row["t"] for row in d.rows("times")} == {"a": 90, "b": 91, "c": 89}


def test_a_processor_goes_on_with_the_state_of_a_savepoint(tmp_path: Path) -> None:
    live, home, spark = written(tmp_path / "live", OLD), tmp_path / "home", shared_session()

    def app(name: str, initial: Any = None) -> kf.App:
        made = kf.App(name)
        stream = made.stream("s", kf.files(live), SCHEMA, time="at")
        stream.by("k").process("totals", Total, output=OUTPUT, initial=initial)
        return made

    with app("old").start(home=home, spark=spark) as handle:
        handle.drain()
        handle.savepoint("then")
    written(live, NEW, "b.json")
    with app("new", kf.savepoint("then", app="old")).start(home=home, spark=spark) as handle:
        handle.drain()
        assert {row["k"]: row["total"] for row in handle.table("totals").rows()} == recount(OLD + NEW)
