"""rescale: another number of partitions, every key compared, and what a kill in the middle leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.main import main
from keyfold.engine.rescale import rescale
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.testing import Driver, drive, shared_session
from tests.engine.recovery.test_resize import kinds, rows_at, shown

pytestmark = pytest.mark.jvm


def app() -> kf.App:
    made = kinds()
    rows = made.stream("more", kf.rows([]), schema="k string, x int, t timestamp", time="t")
    rows.distinct("k", "x", within="1 hour").by("k").table("once", n="count(*)")
    other = made.stream("other", kf.rows([]), schema="k string, y int, t timestamp", time="t")
    rows.join(other, on="k", within="1 hour").by("k").table("joined", n="count(*)")
    return made


def fill(d: Driver, first: int) -> None:
    for second, x in ((first, 1), (first + 1, 2)):
        for stream in ("rows", "more"):
            d.push(stream, list(rows_at(second, x)))


def seen(d: Driver) -> dict[str, Any]:
    return {**shown(d), "once": d.rows("once"), "joined": d.rows("joined")}


def test_every_kind_of_table_goes_on_with_another_number_of_partitions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark = shared_session()
    with drive(app()) as clean:
        with drive(app(), home=tmp_path) as d:
            for each in (clean, d):
                fill(each, 1)
        home = AppHome(tmp_path / "kinds")
        words = ["state", "size", "kinds.windows", "--partitions", "8", "--home", str(tmp_path)]
        capsys.readouterr()
        assert main([*words, "--json"]) == 0
        size = json.loads(capsys.readouterr().out)
        assert {one["family"]: one["rows"] for one in size["families"]}["state"] == 4
        assert sorted(one["key"]["k"] for one in size["largest_keys"]) == list("abcd")
        assert sum(one["bytes"] for one in size["largest_keys"]) == sum(
            one["bytes"] for one in size["families"]
        )
        assert [one["partitions"] for one in size["partitions"]] == [2, 8]
        assert all(one["skew"] >= 1 for one in size["partitions"])
        assert main(words) == 0
        assert "2 (now)" in capsys.readouterr().out
        planned = ["rescale", "kinds.windows", "6", "--plan", "--cores", "2", "--home", str(tmp_path)]
        assert main([*planned, "--json"]) == 0
        plan = json.loads(capsys.readouterr().out)
        assert (plan["now"], plan["cores"]) == (2, 2)
        assert [one["partitions"] for one in plan["plan"]] == [2, 4, 6, 8, 16]
        total = sum(one["bytes"] for one in size["families"])
        assert {sum(one["bytes"]) for one in plan["plan"]} == {total}
        assert plan["plan"][0]["time"] == 1
        assert main(planned) == 0
        assert "2 (now)" in capsys.readouterr().out
        assert home.table("windows").spark.partitions() == 2
        numbers = {"sums": 5, "windows": 1, "top": 3, "matches": 3, "once": 4, "joined": 3}
        for table, number in numbers.items():
            entry = rescale.rescale(spark, home, table, number, "more cores", lambda _: None)
            assert entry["partitions"] == [2, number]
            assert entry["rows"] >= 4
            assert home.table(table).spark.partitions() == number
            assert not (home.path / "rescaling").exists()
        for number, text in ((5, "has 5 partitions"), (0, "N")):
            assert main(["rescale", "kinds.sums", str(number), "--home", str(tmp_path)]) == 2
            assert text in capsys.readouterr().err
        assert main(["rescale", "kinds.sums", "--home", str(tmp_path)]) == 2
        assert "the new number of partitions is missing" in capsys.readouterr().err
        with drive(app(), home=tmp_path) as d:
            assert seen(d) == seen(clean)
            for each in (clean, d):
                fill(each, 40)
            assert seen(d) == seen(clean)
            d.crash()
            assert seen(d) == seen(clean)


def test_a_failure_at_any_step_leaves_the_old_state_or_is_finished_by_the_next_start(tmp_path: Path) -> None:
    spark, home = shared_session(), AppHome(tmp_path / "counts")
    app = kf.App("counts")
    app.stream("rows", kf.rows([]), schema="k string").by("k").table("n", n="count(*)")
    with drive(app, home=tmp_path) as d:
        d.push("rows", [{"k": k} for k in "abcdef"])
    with pytest.raises(BadOption, match="has 2 partitions"):
        rescale.rescale(spark, home, "n", 2, None, lambda _: None)

    number = 2
    for step in (FaultPoint.RESCALE_READY, FaultPoint.RESCALE_RECORDED, FaultPoint.RESCALE_SWITCHED):

        def fail(at: FaultPoint, facts: dict[str, Any], step: FaultPoint = step) -> None:
            if at == step:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt), handled_by(fail):
            rescale.rescale(spark, home, "n", number + 1, None, lambda _: None)
        number += step != FaultPoint.RESCALE_READY
        with drive(app, home=tmp_path) as d:
            d.push("rows", [{"k": "a"}])
            assert home.table("n").spark.partitions() == number
            assert not (home.path / "rescaling").exists()
    with drive(app, home=tmp_path) as d:
        assert {row["k"]: row["n"] for row in d.rows("n")} == {**dict.fromkeys("bcdef", 1), "a": 4}
