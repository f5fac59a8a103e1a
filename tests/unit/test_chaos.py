"""The kill campaign's own parts: its rows, and its comparison, which must be able to find something."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from chaos import compare, events, upkeep
from chaos.life import Run


def texts(place: Path) -> dict[str, str]:
    return {str(path.relative_to(place)): path.read_text("utf-8") for path in place.rglob("*.json")}


def test_a_seed_gives_the_same_files_again(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        events.generate(tmp_path / name, files=2, rows=50, seed=seed)
    assert len(texts(tmp_path / "one")) == 2 * len((*events.STREAMS, events.MESSAGES))
    assert texts(tmp_path / "one") == texts(tmp_path / "again") != texts(tmp_path / "other")


def test_an_arriving_file_keeps_its_age_and_its_order(tmp_path: Path) -> None:
    events.generate(tmp_path / "files", files=2, rows=5, seed=1)
    for number in (1, 0):
        events.arrive(tmp_path / "files", tmp_path / "data", number)
    first, second = (tmp_path / "data" / "clicks" / f"000{n}.json" for n in (0, 1))
    assert first.stat().st_mtime < second.stat().st_mtime


def test_rows_that_are_missing_or_too_many_are_named() -> None:
    found = compare._compared("totals, view", Counter(["a", "b", "b"]), Counter(["a", "b", "c"]))
    assert found == compare.Compared("totals, view", 3, ("missing: b", "too many: c"))


def test_every_table_and_stream_of_the_app_is_compared() -> None:
    names = compare.tables()
    assert len(names) == len(set(names)) >= 30
    assert {*upkeep.FORGETTING, upkeep.REPLAYING} <= set(names)
    assert sorted(compare.streams()) == sorted((*events.STREAMS, events.MESSAGES))


def test_each_run_has_a_home_and_a_topic_of_its_own(tmp_path: Path) -> None:
    killed, clean = (Run(tmp_path / name, "127.0.0.1:9") for name in ("killed", "clean"))
    assert killed.environment()["CHAOS_TOPIC"] != clean.environment()["CHAOS_TOPIC"]
    assert killed.home != clean.home
