"""Incomplete state is refused, by a run and by a check, with the missing file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import keyfold as kf
from keyfold.cli.app.check import findings_of
from keyfold.engine import start
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import HomeUnusable, KeyfoldError
from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm


def summing(inbox: Path, function: str = "sum") -> kf.App:
    app = kf.App("shop")
    rows = app.stream("rows", kf.files(inbox), schema="k string, x bigint")
    rows.by("k").table("totals", x=f"{function}(x)")
    return app


def total(app: kf.App, home: Path) -> int:
    with start.start(app.spec(), spark=shared_session(), home=home) as handle:
        handle.drain()
        return int(handle.table("totals").get("a")["x"])


def files_of(home: AppHome) -> dict[Path, bytes]:
    """The files of an app, without its lease: a start holds that before it looks at anything."""
    files = (file for file in home.path.rglob("*") if file.is_file() and file.parent.name != "lease")
    return {file: file.read_bytes() for file in files}


def refused(app: kf.App, home: Path, match: str) -> str:
    """What a start says, and that a check says it too and that nothing was written."""
    app_home = AppHome(home / "shop")
    before = files_of(app_home)
    with pytest.raises(HomeUnusable, match=match) as error:
        total(app, home)
    (found,) = findings_of(shared_session(), app.spec(), {}, app_home.read_plan(), app_home)
    assert isinstance(found.error, KeyfoldError)
    assert (str(found.error), found.state) == (str(error.value), "differs")
    after = files_of(app_home)
    assert after.keys() == before.keys()
    assert all(after[file] == before[file] for file in before if "tables" in file.parts)
    return str(error.value)


def test_state_whose_definition_or_log_is_lost_is_not_gone_on_with(tmp_path: Path) -> None:
    inbox, home = tmp_path / "in", tmp_path / "home"
    inbox.mkdir()
    for number in range(2):
        (inbox / f"{number}.json").write_text('{"k": "a", "x": 2}\n')
    assert total(summing(inbox), home) == 4
    plan, checkpoint = home / "shop" / "app.json", home / "shop" / "tables" / "totals" / "checkpoint"
    kept, log = plan.read_bytes(), checkpoint / "sources" / "0" / "0"
    plan.unlink()
    assert "restore app.json" in refused(summing(inbox, "max"), home, "does not record which definition")
    plan.write_text(json.dumps({**json.loads(kept), "tables": {}}))
    refused(summing(inbox, "max"), home, "does not record which definition")
    plan.write_bytes(kept[:100])
    with pytest.raises(HomeUnusable, match=r"app\.json can't be read") as cut:
        total(summing(inbox), home)
    assert "restore it as it was" in str(cut.value)
    plan.write_bytes(kept)
    entry = log.read_bytes()
    log.unlink()
    (inbox / "2.json").write_text('{"k": "a", "x": 2}\n')
    assert str(log) in refused(summing(inbox), home, "what it has read are missing")
    log.write_bytes(entry)
    assert total(summing(inbox), home) == 6


def test_a_lost_checkpoint_is_told_from_one_that_is_older_than_the_log(tmp_path: Path) -> None:
    inbox, home = tmp_path / "in", tmp_path / "home"
    inbox.mkdir()
    for number in range(3):
        (inbox / f"{number}.json").write_text('{"k": "a", "x": 2}\n')
        assert total(summing(inbox), home) == 2 + 2 * number
    checkpoint, away = home / "shop" / "tables" / "totals" / "checkpoint", tmp_path / "away"
    shutil.copytree(checkpoint, away)
    for log in ("offsets", "commits"):
        for number in (1, 2):
            (checkpoint / log / str(number)).unlink()
    with pytest.raises(
        HomeUnusable, match=r"log of shop\.totals is at batch 2, and its checkpoint is at batch 0"
    ):
        total(summing(inbox), home)
    shutil.rmtree(checkpoint)
    for views in ("sqlite", "none"):
        with pytest.raises(HomeUnusable, match="its checkpoint is missing"):
            start.start(
                summing(inbox).spec(), spark=shared_session(), home=home, settings={"views": views}
            ).stop()
    away.rename(checkpoint)
    assert total(summing(inbox), home) == 6
