"""Directories in which nothing happens are not listed, and no file that comes to one is missed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

import keyfold as kf
from keyfold.engine import start
from keyfold.engine.session import kernel
from keyfold.engine.sources import file_names
from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm


def counting(inbox: Path, home: Path, **options: object) -> start.Handle:
    app = kf.App("still")
    rows = app.stream("rows", kf.files(inbox, **options), schema="k string")
    rows.by("k").table("counts", n="count(*)")
    return start.start(app.spec(), spark=shared_session(), home=home)


def put(directory: Path, name: str) -> None:
    """A row, in a file that is there at once."""
    hidden = directory / f".{name}"
    hidden.write_text('{"k": "a"}\n')
    hidden.rename(directory / name)


def count(handle: start.Handle) -> int:
    handle.drain()
    found = handle.table("counts").get("a")
    return 0 if found is None else int(found["n"])


def settle(handle: start.Handle, directory: Path) -> None:
    """Until the directory's time is old enough to be gone by."""
    handle.drain()
    while time.time() - directory.stat().st_mtime < 0.3:
        handle.drain()


def eventually(handle: start.Handle, expected: int, seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while (found := count(handle)) != expected and time.monotonic() < until:
        pass
    assert found == expected


def test_files_are_found_as_they_come_soon_and_late(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    with counting(inbox, tmp_path / "home") as handle:
        assert count(handle) == 0
        settle(handle, inbox)
        for number in range(1, 4):
            put(inbox, f"soon{number}.json")
            assert count(handle) == number
        settle(handle, inbox)
        put(inbox, "late.json")
        assert count(handle) == 4
    put(inbox, "meanwhile.json")
    with counting(inbox, tmp_path / "home") as handle:
        assert count(handle) == 5


def test_a_time_that_more_changes_may_have_is_not_gone_by(tmp_path: Path) -> None:
    """One in the future, as after two changes within a tick of the file system's clock."""
    inbox = tmp_path / "in"
    inbox.mkdir()
    with counting(inbox, tmp_path / "home") as handle:
        for number in range(1, 4):
            changed = time.time_ns() + 3600 * 10**9
            os.utime(inbox, ns=(changed, changed))
            for _ in range(3):
                handle.drain()
            put(inbox, f"{number}.json")
            os.utime(inbox, ns=(changed, changed))
            assert count(handle) == number


@pytest.mark.parametrize(
    "mark", [lambda ns: ns, lambda ns: ns // 10**9 * 10**9], ids=["fine", "whole seconds"]
)
def test_a_file_that_leaves_its_directorys_time_as_it_was_is_found(
    tmp_path: Path, mark: Callable[[int], int]
) -> None:
    """As on a file system whose clock stands still; and until then the directory was not listed."""
    inbox = tmp_path / "in 50%20 ü"
    inbox.mkdir()
    seen = []
    with counting(inbox, tmp_path / "home") as handle:
        for number in range(1, 6):
            changed = mark(inbox.stat().st_mtime_ns - 10 * 10**9)
            os.utime(inbox, ns=(changed, changed))
            for _ in range(3):
                handle.drain()
            put(inbox, f"{number}.json")
            os.utime(inbox, ns=(changed, changed))
            seen.append(count(handle) == number)
            eventually(handle, number)
            if not seen[-1]:
                break
    # Now and then the time after which it is listed anyway ends in between.
    assert not all(seen)


def test_a_file_that_comes_late_is_read_however_old_it_is_unless_old_ones_are_not_wanted(
    tmp_path: Path,
) -> None:
    for number, options in enumerate([{}, {"maxFileAge": "7d"}]):
        inbox = tmp_path / str(number)
        inbox.mkdir()
        put(inbox, "1.json")
        with counting(inbox, tmp_path / f"home{number}", **options) as handle:
            assert count(handle) == 1
            old = inbox / ".2.json"
            old.write_text('{"k": "a"}\n')
            os.utime(old, (time.time() - 30 * 86400,) * 2)
            old.rename(inbox / "2.json")
            assert count(handle) == (1 if options else 2)


def test_an_old_file_that_waits_to_be_removed_is_read_once(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    for number, days in ((1, 30), (2, 0), (3, 0)):
        put(inbox, f"{number}.json")
        os.utime(inbox / f"{number}.json", (time.time() - days * 86400,) * 2)
    options = {"cleanSource": "delete", "maxFilesPerTrigger": 1}
    with counting(inbox, tmp_path / "home", **options) as handle:
        assert count(handle) == 3
    with counting(inbox, tmp_path / "home", **options) as handle:
        put(inbox, "4.json")
        assert count(handle) == 4


def test_what_comes_to_a_directory_below_is_found(tmp_path: Path) -> None:
    below = tmp_path / "in" / "below"
    below.mkdir(parents=True)
    with counting(tmp_path / "in", tmp_path / "home", recursiveFileLookup=True) as handle:
        for number in range(1, 3):
            settle(handle, below)
            put(below, f"{number}.json")
            assert count(handle) == number


def test_a_directory_that_is_gone_when_the_query_starts_may_come_back(tmp_path: Path) -> None:
    """What a stream looks like is known since it was declared."""
    inbox, gone = tmp_path / "in", tmp_path / "gone"
    inbox.mkdir()
    put(inbox, "1.json")
    spark, found = shared_session(), list[Any]()
    rows = file_names.name_files(spark.readStream.schema("k string").json(str(inbox)), stream="rows")
    plain = DataFrame(kernel(spark).declare(rows._jdf, True, None, None, {}, True).rows(None), spark)
    inbox.rename(gone)
    writer = plain.writeStream.foreachBatch(lambda frame, _: found.extend(frame.collect()))
    query = writer.option("checkpointLocation", str(tmp_path / "at")).start()
    try:
        query.processAllAvailable()
        assert found == []
        gone.rename(inbox)
        query.processAllAvailable()
    finally:
        query.stop()
    assert [row.k for row in found] == ["a"]


def test_another_directory_in_its_place_is_found(tmp_path: Path) -> None:
    inbox, other = tmp_path / "in", tmp_path / "other"
    inbox.mkdir()
    other.mkdir()
    put(other, "1.json")
    with counting(inbox, tmp_path / "home") as handle:
        settle(handle, inbox)
        assert count(handle) == 0
        changed = inbox.stat().st_mtime_ns
        inbox.rename(tmp_path / "gone")
        other.rename(inbox)
        os.utime(inbox, ns=(changed, changed))
        eventually(handle, 1, 2)


def test_files_that_wait_for_their_turn_are_read_though_nothing_changes(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    for number in range(7):
        put(inbox, f"{number}.json")
    with counting(inbox, tmp_path / "home", maxFilesPerTrigger=2) as handle:
        assert count(handle) == 7
        settle(handle, inbox)
        put(inbox, "more.json")
        assert count(handle) == 8
