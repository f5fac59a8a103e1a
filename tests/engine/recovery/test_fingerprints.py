"""The fingerprints of tables of every kind are those that earlier versions have stored."""

from __future__ import annotations

from pathlib import Path

from keyfold import private
from keyfold.engine.compile.table import compile_app
from keyfold.engine.recovery.definition import fingerprint, meaning_of
from keyfold.testing import shared_session
from tests.every_kind import every_kind

# As app.json of existing apps has them: where one differs, a start refuses the state.
STORED = {
    "totals": "1b5a04e981c089f7",
    "timeless": "f74e523ace3e1a93",
    "tumbling": "9c742d539101b352",
    "days": "879200752b752831",
    "sliding": "f052cc8170eaf0d0",
    "session": "ecfd6cd352c4477f",
    "gaps": "3819afd2e4fae32d",
    "rolling": "ef823c157d0bc5d0",
    "panes": "642fccc5181c2d1f",
    "last": "1f9c81f60d1b24f1",
    "top": "8c5ed8772d5b7198",
    "top_named": "3bded3a765560962",
    "latest": "ee815d68c5e54ddb",
    "latest_named": "8b0445c93720a3b6",
    "pattern": "f2f7d2810d97e3c6",
    "arrival": "d17055e6f29707d9",
    "appended": "ea73d3de49cf0210",
    "updated": "c904a1d36611def0",
    "readers": "b67d751e326ba205",
    "enriched": "d9353886626931b5",
    "joined": "814ac96dadf352b8",
    "distinct": "dc9024837cf8d4b1",
    "united": "e855847b2fbee108",
    "both": "4d9b59da677d2f0b",
}


def fingerprints(directory: Path) -> dict[str, str]:
    spec = every_kind().spec()
    feeds = {stream.name: private.directory(directory / stream.name) for stream in spec.streams}
    return {one.spec.name: fingerprint(meaning_of(one)) for one in compile_app(shared_session(), spec, feeds)}


def test_the_fingerprints_are_those_that_are_stored(tmp_path: Path) -> None:
    assert fingerprints(tmp_path) == STORED
