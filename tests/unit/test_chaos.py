"""The kill campaign's own parts: its rows, and its comparison, which must be able to find something."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from chaos import compare, events, upkeep
from chaos.life import APP, Run


def texts(place: Path) -> dict[str, str]:
    return {str(path.relative_to(place)): path.read_text("utf-8") for path in place.rglob("*.json")}


def test_a_seed_gives_the_same_files_again(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        events.generate(tmp_path / name, files=2, rows=50, seed=seed)
    assert len(texts(tmp_path / "one")) == 2 * len((*events.STREAMS, events.MESSAGES))
    assert texts(tmp_path / "one") == texts(tmp_path / "again") != texts(tmp_path / "other")


@pytest.mark.parametrize("rows", [400, 100])
def test_a_late_message_is_late_wherever_a_batch_ends(tmp_path: Path, rows: int) -> None:
    events.generate(tmp_path, files=12, rows=rows, seed=1)
    late = 0
    for number in range(12):
        lines = (tmp_path / events.MESSAGES / f"{number:04d}.json").read_text("utf-8").splitlines()
        times = [datetime.fromisoformat(json.loads(line)["at"]) for line in lines if line.endswith("}")]
        begin = events.START + number * events.SPAN
        assert all(at < begin + events.SPAN for at in times)
        old = [at for at in times if at < begin]
        # Those of the files before are in earlier batches, perhaps but for one that a partition is behind.
        known = begin - (events.files_of_a_batch(rows) + 1) * events.SPAN
        watermark = known - timedelta(hours=1)
        assert all(at + timedelta(minutes=15) <= watermark for at in old)
        assert number > events.files_of_a_batch(rows) or not old, "before there is a watermark"
        late += len(old)
    assert late > 10
    (visits,) = (one for one in compare._keyfold("describe", APP)["streams"] if one["name"] == "visits")
    assert f"'maxOffsetsPerTrigger': '{events.BATCH}'" in str(visits)
    assert "1 hour" in str(visits)


def test_an_arriving_file_keeps_its_age_and_its_order(tmp_path: Path) -> None:
    events.generate(tmp_path / "files", files=2, rows=5, seed=1)
    for number in (1, 0):
        events.arrive(tmp_path / "files", tmp_path / "data", number)
    first, second = (tmp_path / "data" / "clicks" / f"000{n}.json" for n in (0, 1))
    assert first.stat().st_mtime < second.stat().st_mtime


def test_rows_that_are_missing_or_too_many_are_named() -> None:
    found = compare._compared("totals, view", Counter(["a", "b", "b"]), Counter(["a", "b", "c"]))
    assert found == compare.Compared("totals, view", 3, ("missing: b", "too many: c"))


def test_how_late_a_message_is_differs_from_run_to_run_and_that_it_is_late_does_not() -> None:
    of_file, of_message = {"stream": "clicks"}, {"stream": events.MESSAGES}
    assert "late_by" not in compare._of_run(of_file, "late")
    assert {"late_by", "watermark", "at"} <= set(compare._of_run(of_message, "late"))
    assert not {"windows", "missed", "raw"} & set(compare._of_run(of_message, "late"))
    assert "late_by" not in compare._of_run(of_message, "rejected")


def test_every_table_and_stream_of_the_app_is_compared() -> None:
    names = compare.tables()
    assert len(names) == len(set(names)) >= 30
    assert {*upkeep.FORGETTING, *upkeep.REPLAYING} <= set(names)
    assert sorted(compare.streams()) == sorted((*events.STREAMS, events.MESSAGES))


def test_each_run_has_a_home_and_a_topic_of_its_own(tmp_path: Path) -> None:
    killed, clean = (Run(tmp_path / name, "127.0.0.1:9") for name in ("killed", "clean"))
    assert killed.environment()["CHAOS_TOPIC"] != clean.environment()["CHAOS_TOPIC"]
    assert killed.home != clean.home
