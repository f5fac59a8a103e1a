"""What an app does in a home, wherever that is; a storage's test class inherits it."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.main import main
from keyfold.engine.log import changes
from keyfold.engine.polling import wait_until
from keyfold.errors import HomeLocked, RunError
from keyfold.fault_points import FaultPoint, handled_by

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
REGIONS = ("eu", "us", "eu", None)


def is_manifest(name: str) -> bool:
    """Whether a file is a manifest, `<batch>.json`."""
    return re.fullmatch(r"(0|[1-9]\d*)\.json", name) is not None


# Where a batch of `sums` fails, in the order in which it comes there.
POINTS: dict[str, Callable[[FaultPoint, dict[str, Any]], bool]] = {
    "begun": lambda point, facts: point is FaultPoint.BATCH_BEGUN and facts["table"] == "sums",
    "written": lambda point, facts: point is FaultPoint.PARTS_WRITTEN and facts["table"] == "sums",
    "sending": lambda point, facts: (
        point in (FaultPoint.STORAGE_SENDING, FaultPoint.STORAGE_FLUSHED) and is_manifest(facts["name"])
    ),
    "named": lambda point, facts: point is FaultPoint.STORAGE_NAMED and is_manifest(facts["name"]),
    "published": lambda point, facts: point is FaultPoint.BATCH_PUBLISHED and facts["table"] == "sums",
    "view": lambda point, facts: point is FaultPoint.VIEW_WRITTEN and facts["table"] == "sums",
    "reader": lambda point, facts: point is FaultPoint.BATCH_PUBLISHED and facts["table"] == "whole",
    "done": lambda point, facts: point is FaultPoint.BATCH_DONE and facts["table"] == "sums",
}


# Where starts are slow: what differs from one storage to another.
FEW = ("sending", "named", "view", "reader")


class Failure(Exception):
    """What a fault point raises."""


def write(inbox: Path, number: int, *, hours: float = 0) -> None:
    """A file of four rows, one of which has no key."""
    inbox.mkdir(exist_ok=True)
    at = (NOON + timedelta(hours=hours)).isoformat()
    rows = [{"region": region, "id": number, "at": at} for region in REGIONS]
    (inbox / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(inbox / f"{number}.json", (1_000_000 + number, 1_000_000 + number))


def shop(inbox: Path, *, reader: bool = True) -> kf.App:
    """Tables of every kind that keeps files of its own in a home."""
    app = kf.App("shop")
    schema = "region string, id bigint, at timestamp"
    orders = app.stream("orders", kf.files(inbox, maxFilesPerTrigger=1), schema, time="at", late="1 minute")
    sums = orders.by("region").table("sums", n="count(*)", ids="sum(id)")
    orders.by("region").tumbling("1 hour").table("hours", n="count(*)", keep="30 days")
    names = app.stream("names", kf.rows([{"region": "eu"}, {"region": "us"}]), "region string")
    names.by("region").table("known", n="count(*)")
    if reader:
        sums.changes().by(all="1").table("whole", regions="count(*)", n="sum(n)")
    return app


def rows(handle: Any, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in columns) for row in handle.table(table).rows())


def expected(files: int) -> list[tuple[Any, ...]]:
    """`sums` after the first files, by a plain count."""
    n = Counter(region for _ in range(files) for region in REGIONS if region)
    return sorted((region, n[region], n[region] // files * sum(range(files))) for region in n)


def folded(handle: Any, table: str) -> dict[Any, Any]:
    """The rows of a table as its log has them, from the first batch on."""
    hook, found = handle.hooks[table], {}
    for change in changes.rows(hook.log, hook.schema, -1):
        found[change["region"]] = (change["n"], change["ids"])
    return found


def run_once(app: kf.App, failing: str | None, **where: Any) -> None:
    """Drains an app, which fails once where it is told to."""
    left = [failing] if failing else []

    def fail(point: FaultPoint, facts: dict[str, Any]) -> None:
        if left and POINTS[left[0]](point, facts):
            left.clear()
            raise Failure

    with handled_by(fail), suppress(RunError, Failure), app.start(**where) as handle:
        handle.drain()
    assert not left, f"it never came to {failing}"


@pytest.mark.timeout(600)
class HomeContract:
    """The tests; `root` is the address of an empty directory: a path, or a URI."""

    points: Sequence[str] = tuple(POINTS)

    @pytest.fixture
    def root(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def keyfold(
        self, root: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> Callable[..., Any]:
        """Calls a command on the home, in the session of the tests; returns its JSON document."""
        monkeypatch.setenv("KEYFOLD_HOME", root)
        monkeypatch.setenv("KEYFOLD_LOCAL", str(tmp_path / "commands"))

        def call(*words: str, code: int = 0) -> Any:
            capsys.readouterr()
            ended = main([*words, "--json"])
            out, err = capsys.readouterr()
            assert ended == code, err
            return json.loads(out)

        return call

    def test_an_app_that_fails_at_every_point_goes_on_elsewhere_as_if_it_had_not(
        self, spark: Any, root: str, tmp_path: Path
    ) -> None:
        inbox = tmp_path / "in"
        for number, point in enumerate(self.points):
            write(inbox, number)
            # `sums` is read from the third start on, when it has run for a while; each start has no views.
            app = shop(inbox, reader=number >= 2)
            run_once(app, point, spark=spark, home=root, local=tmp_path / str(number))
        with shop(inbox).start(spark=spark, home=root, local=tmp_path / "last") as handle:
            handle.drain()
            files = len(self.points)
            assert rows(handle, "sums", "region", "n", "ids") == expected(files)
            assert sorted((key, *row) for key, row in folded(handle, "sums").items()) == expected(files)
            assert rows(handle, "hours", "region", "n") == [(r, n) for r, n, _ in expected(files)]
            assert rows(handle, "whole", "regions", "n") == [(2, 3 * files)]
            assert rows(handle, "known", "region", "n") == [("eu", 1), ("us", 1)]
            assert len(handle.rejected("sums")) == files
            with pytest.raises(HomeLocked, match="this process already runs shop"):
                shop(inbox).start(spark=spark, home=root, local=tmp_path / "last")

    def test_commands_read_repair_and_remove_what_is_in_the_home(
        self, spark: Any, root: str, tmp_path: Path, keyfold: Callable[..., Any]
    ) -> None:
        inbox, local = tmp_path / "in", tmp_path / "local"
        app = tmp_path / "app.py"
        app.write_text(
            "from pathlib import Path\nfrom tests.storage.home_contract import shop\n"
            f"app = shop(Path({str(inbox)!r}))\n"
        )
        for number, hours in enumerate((0, 5, 0)):
            write(inbox, number, hours=hours)
        with shop(inbox).start(spark=spark, home=root, local=local) as handle:
            handle.drain()
            storage = handle.home.storage
        assert [row["reason"] for row in keyfold("side", "show", "rejected", "shop.sums")["rows"]] == [
            "key region is null"
        ] * 3
        assert [batch["rows"] for batch in keyfold("side", "list", "late", "shop.hours")] == [3]
        assert len(keyfold("side", "show", "late", "shop.hours")) == 3
        assert keyfold("side", "replay", "late", "shop.hours")["sent"] == 3
        assert keyfold("side", "replay", "late", "shop.hours")["sent_before"] == 3
        shown = keyfold("log", "show", "shop.sums")
        assert [batch["rejected"] for batch in shown["batches"][:3]] == [1, 1, 1]
        assert keyfold("log", "verify", "shop.sums")["whole"]
        assert keyfold("log", "prune", "shop.sums")["batches"] == 0
        assert keyfold("check", str(app))["ok"]

        with shop(inbox).start(spark=spark, home=root, local=local) as handle:
            handle.drain()
            assert sum(n for _, n in rows(handle, "hours", "region", "n")) == 9
        assert keyfold("drop", "shop.sums", "--yes", code=2)["error"]["text"].startswith(
            "shop.sums is read by whole"
        )
        part = next(n for n in _files(storage, "tables/sums/log/data") if "part-change" in n)
        whole = storage.read(part)
        storage.put(part, whole[:-4] + b"xxxx")
        assert part.rpartition("/")[2] in keyfold("log", "verify", "shop.sums", code=1)["error"]["text"]
        storage.put(part, whole)
        done = keyfold("reset", "shop.sums", "--with-readers", "--yes", "--why", "a test")
        assert done["tables"] == ["sums", "whole"]
        assert done["bytes"] > 1000
        assert storage.list("tables") == ["hours", "known"]
        assert json.loads(storage.read("audit.jsonl"))["why"] == "a test"
        # Views of the tables that were reset by a command elsewhere are of no use any more.
        with shop(inbox).start(spark=spark, home=root, local=local) as handle:
            handle.drain()
            assert rows(handle, "sums", "region", "n", "ids") == expected(3)
            assert rows(handle, "whole", "regions", "n") == [(2, 9)]
        assert keyfold("drop", "shop.hours", "--yes")["tables"] == ["hours"]
        assert "hours" not in keyfold("log", "show", "shop.hours", code=2)["error"]["text"].split("one of")[1]

    def test_event_time_goes_on_when_a_stream_is_idle(self, spark: Any, root: str, tmp_path: Path) -> None:
        write(tmp_path / "in", 0)
        app = kf.App("clock")
        schema = "region string, id bigint, at timestamp"
        orders = app.stream("orders", kf.files(tmp_path / "in"), schema, time="at", late="1 minute")
        hours = orders.by("region").tumbling("1 hour")
        hours.table("closed", n="count(*)", emit="final", idle="1 second")
        with app.start(spark=spark, home=root, local=tmp_path / "local") as handle:
            assert wait_until(lambda: rows(handle, "closed", "region", "n"), 60)
            assert rows(handle, "closed", "region", "n") == [("eu", 2), ("us", 1)]


def _files(storage: Any, name: str) -> list[str]:
    """All files below a directory."""
    found = [f"{name}/{below}" for below in storage.list(name)]
    return [file for one in found for file in (_files(storage, one) or [one])]
