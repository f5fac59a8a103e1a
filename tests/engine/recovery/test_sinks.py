"""Sinks go on where they were, whatever else is declared and whatever was done to their table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import keyfold as kf
from keyfold.engine.batch import late_replay
from keyfold.engine.rescale import rescale
from keyfold.engine.savepoint import clone, restore
from keyfold.engine.savepoint.capture import capture, silent
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import QueryFailed, StateMismatch
from keyfold.testing import Driver, drive, shared_session
from tests.engine.recovery.test_migrate import migrated, planned
from tests.log_files import empty_logs

pytestmark = pytest.mark.jvm

Sent = list[tuple[str, int, int]]


def shop(*sinks: Path, name: str = "shop", table: str = "totals", was: str | None = None) -> kf.App:
    """An app whose table has these directories as sinks."""
    app = kf.App(name)
    rows = app.stream("rows", kf.rows([]), schema="k string, t timestamp", time="t")
    totals = rows.by("k").table(table, n="count(*)", was=was)
    for sink in sinks:
        totals.to(kf.files(sink, format="json"))
    return app


def push(d: Driver, *keys: str) -> None:
    d.push("rows", [{"k": key, "t": "2026-01-01T00:00:00Z"} for key in keys])


def sent(directory: Path) -> Sent:
    """Key, count and batch of each change that a sink has written."""
    lines = [line for file in directory.glob("*.json") for line in file.read_text().splitlines()]
    return sorted((row["k"], row["n"], row["_batch"]) for row in map(json.loads, lines))


def positions(home: Path, table: str = "totals") -> dict[str, int]:
    """The newest batch that each sink has written, by the directory at the end of its name, or its number."""
    files = (home / "shop" / "tables" / table / "sinks").glob("*.json")
    return {file.stem.split("-")[-2:][0]: json.loads(file.read_text())["batch"] for file in files}


def as_before(home: Path) -> None:
    """Makes a home one of an earlier version, which numbered the sinks of a table."""
    plan = home / "shop" / "app.json"
    found = json.loads(plan.read_text())
    for table in found["declared"]["tables"]:
        for number, sink in enumerate(table["sinks"]):
            directory = home / "shop" / "tables" / table["name"] / "sinks"
            (directory / f"{sink.pop('name')}.json").rename(directory / f"{number}.json")
    plan.write_text(json.dumps(found))


def write_position(home: Path, name: str, batch: int) -> None:
    (home / "shop" / "tables" / "totals" / "sinks" / f"{name}.json").write_text(f'{{"batch": {batch}}}')


def test_a_sink_that_has_failed_goes_on_below_a_new_one_and_so_do_sinks_that_change_places(
    tmp_path: Path,
) -> None:
    home, out, other = tmp_path / "home", tmp_path / "out", tmp_path / "other"
    out.write_text("not a directory")
    with (
        drive(shop(out), home=home) as d,
        pytest.raises(QueryFailed, match=r"the sink files-\S+-out-\S+ of table"),
    ):
        push(d, "a", "b")
    out.unlink()
    with drive(shop(other, out), home=home) as d:
        push(d, "c")
    assert sent(out) == [("a", 1, 0), ("b", 1, 0), ("c", 1, 1)]
    assert sent(other) == [("c", 1, 1)], "a new sink gets what changes from then on"
    with drive(shop(out, other), home=home) as d:
        push(d, "a")
    with drive(shop(other), home=home) as d:
        push(d, "b")
    assert positions(home) == {"out": 2, "other": 3}
    with drive(shop(out, other), home=home) as d:
        push(d, "c")
    assert sent(out) == sorted([("a", 1, 0), ("b", 1, 0), ("c", 1, 1), ("a", 2, 2), ("b", 2, 3), ("c", 2, 4)])
    assert sent(other) == sorted([("c", 1, 1), ("a", 2, 2), ("b", 2, 3), ("c", 2, 4)])

    # The log waits for sinks that are declared; what one has missed that was not is said, and not skipped.
    with drive(shop(other), home=home) as d:
        push(d, "a")
    empty_logs(home / "shop")
    missed = r"sink files-\S+-out-\S+ of shop\.totals .* has missed batches 5 to 5"
    with pytest.raises(StateMismatch, match=missed), drive(shop(other, out), home=home):
        pass
    with drive(shop(other), home=home) as d:
        assert d.rows("totals", where="k = 'a'") == [{"k": "a", "n": 3}]


def test_sinks_of_an_earlier_version_go_on_through_savepoints_clones_and_other_changes(
    tmp_path: Path,
) -> None:
    home, app_home = tmp_path / "home", AppHome(tmp_path / "home" / "shop")
    one, two, new = tmp_path / "one", tmp_path / "two", tmp_path / "new"
    with drive(shop(one, two), home=home) as d:
        push(d, "a")
        push(d, "b")
    as_before(home)
    write_position(home, "1", 0)
    assert positions(home) == {"0": 1, "1": 0}
    capture(app_home, "old", (), None, silent)

    with drive(shop(new, one, two), home=home):
        pass
    assert positions(home) == {"new": 1, "one": 1, "two": 1}
    assert sent(one) == [("a", 1, 0), ("b", 1, 1)]
    assert sent(two) == [("a", 1, 0), ("b", 1, 1), ("b", 1, 1)], "from its own position"
    assert sent(new) == []

    # Put back to when positions had numbers; all of the app, or the table alone. The plan is of then.
    for tables in ([], ["totals"]):
        restore.restore(app_home, "old", tables, None, silent)
        assert positions(home) == {"0": 1, "1": 0}
        with drive(shop(new, two, one), home=home):
            pass
        assert positions(home) == {"new": 1, "one": 1, "two": 1}
    assert len(sent(one)) == 2
    assert len(sent(two)) == 5

    # A clone's own sinks are new; one that it shares continues.
    clone.clone(app_home, "old", AppHome(home / "green"), silent)
    with drive(shop(tmp_path / "blue", two, name="green"), home=home) as d:
        push(d, "c")
    assert sent(tmp_path / "blue") == [("c", 1, 2)]
    assert sent(two)[-1] == ("c", 1, 2)
    assert len(sent(two)) == 7

    # Another number of partitions is a batch without changes; then the table gets another name.
    rescale.rescale(shared_session(), app_home, "totals", 3, None, lambda _: None)
    renamed = shop(two, new, one, table="sums", was="totals")
    migrated(planned(renamed, home, tmp_path / "feeds"))
    with drive(renamed, home=home) as d:
        push(d, "d")
        newest = d.handle.home.table("sums").committed_batch()
    assert sent(one)[-1][:2] == ("d", 1)
    assert sent(new)[-1][:2] == ("d", 1)
    assert positions(home, "sums") == dict.fromkeys(("new", "one", "two"), newest)


def test_replayed_late_rows_reach_a_sink_once(tmp_path: Path) -> None:
    app = kf.App("shop")
    rows = app.stream("rows", kf.rows([]), schema="k string, t timestamp", time="t")
    minutes = rows.by("k").tumbling("1 minute").table("minutes", n="count(*)", keep="1 hour")
    with drive(app, home=tmp_path / "home") as d:
        for time in ("00:00:10", "00:10:00", "00:00:20"):
            d.push("rows", [{"k": "a", "t": f"2026-01-01T{time}Z"}])
        assert len(d.late("minutes")) == 1
    minutes.to(kf.files(tmp_path / "out", format="json"), name="Minutes")
    with drive(app, home=tmp_path / "home") as d:
        table, position = d.handle.home.table("minutes"), d.handle.table("minutes").position()
        assert late_replay.replay(table, 3_600_000, position.watermark).sent == 1
        d.handle.drain()
    assert [change[:2] for change in sent(tmp_path / "out")] == [("a", 2)]
    assert list(positions(tmp_path / "home", "minutes")) == ["minutes"]
    with drive(app, home=tmp_path / "home"):
        pass
    assert len(sent(tmp_path / "out")) == 1
