"""The log of a table: what is published once, what leaves it, and views that come back from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keyfold as kf
from keyfold.engine import start
from keyfold.engine.log import changes
from keyfold.engine.log.retention import NEWEST, count_rows, totals
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import KeyfoldError
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.testing import Driver, drive, shared_session
from tests.conftest import LONG

pytestmark = pytest.mark.jvm


def counting(*, history: str | None = None) -> kf.App:
    app = kf.App("shop")
    rows = app.stream(
        "rows", kf.rows([]), schema="k string, x bigint, t timestamp", time="t", late="0 seconds"
    )
    rows.by("k").table("sums", n="count(*)", total="sum(x)")
    rows.by("k").tumbling("1 minute").table("minutes", n="count(*)", history=history)
    return app


def test_batches_that_all_have_read_leave_the_log_and_stay_counted(tmp_path: Path) -> None:
    inbox, home = tmp_path / "in", tmp_path / "home"
    inbox.mkdir()
    app = kf.App("shop")
    rows = app.stream("rows", kf.files(inbox, maxFilesPerTrigger=1), schema="k string")
    first = rows.by("k").table("counts", n="count(*)")
    first.changes().by(all="1").table("keys", n="count(*)")
    rows.by("k").table("history", n="count(*)", history="1 day")
    for number in range(NEWEST * 2 + 5):
        (inbox / f"{number:02d}.json").write_text(f'{{"k": "{number}"}}\n{{"k": null}}\n')
    with start.start(app.spec(), spark=shared_session(), home=home) as handle:
        handle.drain()
        assert handle.table("keys").get(1)["n"] == NEWEST * 2 + 5
        assert handle.status()["tables"]["counts"]["rejected"] == NEWEST * 2 + 5
    log = TableLog(AppHome(home / "shop").table("counts").log)
    gone = totals(log).upto
    assert gone >= NEWEST // 2, "changes were removed while the app ran"
    found = [manifest for manifest in log.after(-1) if manifest.batch <= gone]
    assert len(found) == gone + 1, "manifests with side outputs stay"
    assert not any((log.storage.root / part.path).exists() for m in found for part in m.of_kind("change"))
    assert +count_rows(log) == {"change": NEWEST * 2 + 5, "rejected": NEWEST * 2 + 5}, "and nothing else"
    kept = TableLog(AppHome(home / "shop").table("history").log)
    assert (totals(kept).upto, len(kept.batches())) == (-1, NEWEST * 2 + 5)
    with start.start(app.spec(), spark=shared_session(), home=home) as handle:
        handle.drain()
        assert handle.status()["tables"]["counts"]["rejected"] == NEWEST * 2 + 5
        assert len(handle.rejected("counts")) == NEWEST * 2 + 5


def minute(n: int) -> str:
    return f"2026-01-01T00:{n:02d}:30Z"


def test_a_lost_view_comes_back_with_closed_windows_and_matches_that_the_log_has() -> None:
    app = counting(history="30 days")
    stream = app.stream("cards", kf.rows([]), schema="k string, x bigint, t timestamp", time="t")
    steps = kf.step("low", "x < 10") >> kf.step("high", "x > 10")
    stream.by("k").pattern("matches", steps, within="1 hour", history="30 days")
    with drive(app) as d:
        for n in range(4):
            d.push("rows", [{"k": "a", "x": n, "t": minute(n)}])
        d.push("cards", [{"k": "a", "x": 1, "t": minute(0)}, {"k": "a", "x": 11, "t": minute(1)}])
        d.advance("cards", "2026-01-01T02:00:00Z")
        before = {table: d.handle.table(table).rows() for table in ("sums", "minutes", "matches")}
        assert [len(rows) for rows in before.values()] == [1, 4, 1]
        d.handle.stop()
        for file in d.handle.home.path.glob("views.db*"):
            file.unlink()
        d._start()
        after = {table: d.handle.table(table).rows() for table in before}
        assert after == before, "the same rows, of the same batches"


POINTS = [
    FaultPoint.BATCH_BEGUN,
    FaultPoint.PARTS_WRITTEN,
    FaultPoint.BATCH_PUBLISHED,
    FaultPoint.VIEW_WRITTEN,
    FaultPoint.VIEW_COMMITTED,
    FaultPoint.BATCH_DONE,
]
ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5)), min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), ROWS),
        st.tuples(st.just("fail"), st.tuples(st.sampled_from(POINTS), ROWS)),
        st.tuples(st.sampled_from(["crash", "restart", "lose the view"]), st.none()),
    ),
    min_size=2,
    max_size=6,
)


@pytest.mark.timeout(900)
@settings(max_examples=30 if LONG else 6, deadline=None)
@given(STEPS)
def test_view_and_log_equal_a_plain_fold_whatever_fails(steps: list[tuple[str, Any]]) -> None:
    expected: dict[str, list[int]] = {}
    with drive(counting()) as d:
        for step, given in steps:
            if step in ("push", "fail"):
                point, rows = (None, given) if step == "push" else given
                pushed(d, rows, point)
                for k, x in rows:
                    expected.setdefault(k, []).append(x)
            elif step == "lose the view":
                d.handle.stop()
                for file in d.handle.home.path.glob("views.db*"):
                    file.unlink()
                d._start()
            else:
                getattr(d, step)()
        want = [{"k": k, "n": len(v), "total": sum(v)} for k, v in sorted(expected.items())]
        assert d.rows("sums") == want
        hook = d.handle.hooks["sums"]
        folded = {}
        for change in changes.rows(hook.log, hook.schema):
            folded[change["k"]] = {name: change[name] for name in ("k", "n", "total")}
        assert [folded[k] for k in sorted(folded)] == want, "the fold of the log"
        published = [m.batch for m in hook.log.after(-1)]
        assert published == sorted(set(published))
        grown = [change["n"] for change in changes.rows(hook.log, hook.schema) if change["k"] == "a"]
        assert grown == sorted(set(grown)), "each change is published once"


def pushed(d: Driver, rows: list[tuple[str, int]], point: FaultPoint | None) -> None:
    """Pushes rows; at the point everything fails once, and the app is started again."""
    failed = False

    def fail(reached: FaultPoint, facts: dict[str, Any]) -> None:
        nonlocal failed
        if reached == point and facts.get("table") == "sums" and not failed:
            failed = True
            raise OSError(5, "gone")

    with handled_by(fail):
        try:
            d.push("rows", [{"k": k, "x": x, "t": minute(0)} for k, x in rows])
        except KeyfoldError:
            assert failed
            d.restart()
