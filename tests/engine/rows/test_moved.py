"""Files are known by their path below the declared directory: a project may be moved or copied."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

import keyfold as kf
from keyfold.engine import start
from keyfold.errors import StateMismatch
from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm


def put(directory: Path, name: str, *keys: str, day: int = 1) -> None:
    (directory / name).parent.mkdir(parents=True, exist_ok=True)
    lines = [f'{{"k": "{k}", "at": "2024-01-{day:02}T00:00:00Z"}}\n' for k in keys]
    (directory / name).write_text("".join(lines))


def counting(place: str, **options: object) -> kf.App:
    """A table by event time that ends with a batch without data, one of its changes, and rows of the app."""
    app = kf.App("shop")
    rows = app.stream("rows", kf.files(place, **options), schema="k string, at timestamp", time="at")
    counts = rows.by("k").table("counts", n="count(*)", ttl="90 days")
    counts.changes().by("k").table("seen", n="sum(n)")
    given = app.stream("given", kf.rows([{"k": "x"}]), schema="k string")
    given.by("k").table("own", n="count(*)")
    return app


def totals(project: Path, place: str = "in", **options: object) -> dict[str, list[tuple[str, int]]]:
    app = counting(place, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        with start.start(app.spec(), spark=shared_session(), home=".keyfold") as handle:
            handle.drain()
            return {
                name: sorted((row["k"], row["n"]) for row in handle.table(name).rows())
                for name in ("counts", "seen", "own")
            }


def all_of(*counted: tuple[str, int]) -> dict[str, list[tuple[str, int]]]:
    return {"counts": list(counted), "seen": list(counted), "own": [("x", 1)]}


def test_a_copied_project_goes_on_and_needs_nothing_of_the_original(tmp_path: Path) -> None:
    old, new = tmp_path / "old ü", tmp_path / "new 50%"
    put(old / "in", "1.json", "a", "b")
    put(old / "in", "2 %20.json", "a", day=2)
    os.utime(old / "in" / "1.json", (time.time() - 30 * 86400,) * 2)
    # A step of the log for each file, and one of the logs compacted.
    shared_session().conf.set("spark.sql.streaming.fileSource.log.compactInterval", "2")
    try:
        assert totals(old, maxFilesPerTrigger=1) == all_of(("a", 2), ("b", 1))
    finally:
        shared_session().conf.unset("spark.sql.streaming.fileSource.log.compactInterval")
    assert list(old.glob(".keyfold/shop/tables/counts/checkpoint/sources/0/*.compact"))
    # Without its files' times.
    shutil.copytree(old, new, copy_function=shutil.copyfile)
    shutil.rmtree(old)
    put(new / "in", "3.json", "a", day=3)
    assert totals(new) == all_of(("a", 3), ("b", 1))
    assert not old.exists()
    # A batch that was planned and not committed is read where the files are now.
    for table in ("counts", "seen", "own"):
        commits = new / ".keyfold" / "shop" / "tables" / table / "checkpoint" / "commits"
        max(commits.glob("[0-9]*"), key=lambda file: int(file.name)).unlink()
    new.rename(old)
    put(old / "in", "4.json", "b", day=4)
    assert totals(old) == all_of(("a", 3), ("b", 2))
    # The data alone, by other spellings of where it is; and a pattern knows them by the same names.
    (old / "in").rename(tmp_path / "data")
    put(tmp_path / "data", "5.json", "b", day=5)
    assert totals(old, (tmp_path / "data").as_uri()) == all_of(("a", 3), ("b", 3))
    assert totals(old, "../data/*.json") == all_of(("a", 3), ("b", 3))


def test_another_directory_with_files_of_the_same_names_or_the_same_files_below_is_refused(
    tmp_path: Path,
) -> None:
    put(tmp_path / "2024", "1.json", "a", "b")
    put(tmp_path / "2024", "2.json", "a", day=2)
    assert totals(tmp_path, "2024") == all_of(("a", 2), ("b", 1))
    put(tmp_path / "2025", "1.json", "c", "d", "e")
    put(tmp_path / "2025", "2.json", "c", "d")
    with pytest.raises(StateMismatch, match=r"names that were already read") as refused:
        totals(tmp_path, "2025")
    assert "1.json" in str(refused.value)
    (tmp_path / "all").mkdir()
    (tmp_path / "2024").rename(tmp_path / "all" / "2024")
    with pytest.raises(StateMismatch, match=r"would be read again") as refused:
        totals(tmp_path, "all", recursiveFileLookup=True)
    assert "2024/1.json" in str(refused.value)
    # One of two has another path.
    shutil.copytree(tmp_path / "all" / "2024", tmp_path / "mixed")
    (tmp_path / "mixed" / "day=2").mkdir()
    (tmp_path / "mixed" / "2.json").rename(tmp_path / "mixed" / "day=2" / "2.json")
    with pytest.raises(StateMismatch, match=r"(?s)would be read again.*day=2/2\.json"):
        totals(tmp_path, "mixed")
    # Only files that were never read: nothing can be read twice or taken for another.
    put(tmp_path / "more", "x.json", "a", day=3)
    assert totals(tmp_path, "more") == all_of(("a", 3), ("b", 1))
    with pytest.raises(StateMismatch, match=r"would be read again"):
        totals(tmp_path, "more/x.json")


def test_a_file_that_is_declared_itself_is_known_by_its_name(tmp_path: Path) -> None:
    put(tmp_path / "old", "only.json", "a")
    assert totals(tmp_path / "old", "only.json") == all_of(("a", 1))
    (tmp_path / "old").rename(tmp_path / "new")
    assert totals(tmp_path / "new", "only.json") == all_of(("a", 1))
    put(tmp_path / "new", "next.json", "b", "a", day=2)
    assert totals(tmp_path / "new", "next.json") == all_of(("a", 2), ("b", 1))
