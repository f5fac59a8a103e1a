"""The home on disk: where an app's files are, what runs there, and who holds it.

```
<home>/spark.log  java.log  log4j2.properties
<home>/.tmp/<run>/         what a JVM needs while it lives
<home>/<app>/lock          pids of the Python process and of its JVM
<home>/<app>/app.json      plan and meaning of what runs
<home>/<app>/views.db      views
<home>/<app>/status.json   how a running app is, or how it was when it stopped
<home>/<app>/streams/<s>/  rows of kf.rows
<home>/<app>/tables/<t>/   checkpoint/  late/  rejected/  changes/
<home>/<app>/tables/<t>/   side/ (late rows sent again)  control/ (rows that only move time)
<home>/<app>/tables/<t>/   removed/ (repeats)  readers.json (the tables that are given its changes)
<home>/<app>/tables/<t>/   from/<n>-<table>/ (changes of other tables, until they are read)
```
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from keyfold import private
from keyfold.errors import HomeUnusable, QueryError, did_you_mean


@dataclass(frozen=True)
class TableHome:
    """The directory of one table."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def checkpoint_url(self) -> str:
        """As Spark takes it, which reads no percent signs."""
        return f"file://{self.checkpoint}"

    @property
    def rejected(self) -> Path:
        return self.path / "rejected"

    @property
    def late(self) -> Path:
        return self.path / "late"

    @property
    def changes(self) -> Path:
        return self.path / "changes"

    @property
    def removed(self) -> Path:
        return self.path / "removed"

    @property
    def incoming(self) -> Path:
        return self.path / "from"

    @property
    def readers(self) -> Path:
        return self.path / "readers.json"

    @property
    def side(self) -> Path:
        return self.path / "side"

    @property
    def control(self) -> Path:
        return self.path / "control"

    def begun(self) -> int | None:
        """The newest batch that Spark has planned."""
        return _newest(self.checkpoint / "offsets")

    def committed(self) -> int | None:
        """The newest batch that Spark has committed."""
        return _newest(self.checkpoint / "commits")

    def sync_plan(self, batch: int) -> None:
        """Puts what the batch reads on disk before its results: a power cut must not plan it anew."""
        steps = map(self.log_entries, self.checkpoint.glob("sources/[0-9]*"))
        newest = [entries[max(entries)] for entries in steps if entries]
        for path in (*newest, self.checkpoint / "offsets" / str(batch)):
            if path.exists():
                sync(path)
                sync(path.parent)

    def adopt(self) -> None:
        """Rewrites absolute paths in the state's metadata after the home was moved.

        They would lead to where it was written: to nothing, or to files of the project it was copied from.
        """
        for file in self.checkpoint.glob("state/*/_metadata/v2/[0-9]*"):
            version, _, text = file.read_text("utf-8").partition("\n")
            told = json.loads(text)
            for store in told["stateStoreInfo"]:
                paths = store.get("stateSchemaFilePaths", [])
                store["stateSchemaFilePaths"] = [f"file:{self.checkpoint}{_in_checkpoint(p)}" for p in paths]
            if told != json.loads(text):
                # It would not fit; without one, nothing is compared.
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
                content = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
                replace_file(file, f"{version}\n{content}".encode())

    def sweep(self) -> None:
        """Removes what a killed process left half written."""
        rows = (self.late, self.rejected, self.removed)
        for directory in (*rows, self.changes, self.incoming, self.side, self.control):
            for file in directory.rglob(".*"):
                file.unlink(missing_ok=True)

    def watermark_ms(self, batch: int) -> int | None:
        """The watermark a batch runs with, from the offset log that Spark wrote before it."""
        try:
            found = int(self._plan(batch)[0].get("batchWatermarkMs", 0))
        except (OSError, ValueError, IndexError):
            return None
        return found or None

    def watermark(self, batch: int) -> datetime | None:
        """The same as a time, if Python has it."""
        ms = self.watermark_ms(batch)
        try:
            return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
        except (OverflowError, ValueError, OSError):
            return None

    def file_logs(self, batch: int, numbers: Iterable[int]) -> dict[int, int]:
        """How far a batch is in the log of each of its sources; -1 for one that does not read files.

        `numbers`: those of the sources, by their positions in Spark's log of offsets.
        """
        try:
            offsets = self._plan(batch)[1:]
        except (OSError, ValueError):
            return {}
        upto = (int(at.get("logOffset", -1)) if isinstance(at, dict) else -1 for at in offsets)
        return dict(zip(numbers, upto, strict=False))

    def state_codec(self) -> str | None:
        """How files of state are compressed."""
        try:
            conf = self._plan(self.begun() or 0)[0]["conf"]
            return str(conf["spark.sql.streaming.stateStore.compression.codec"])
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def log_entries(self, log: Path) -> dict[int, Path]:
        """The files of a source's log by their numbers, the compacted one where there are two."""
        entries: dict[int, Path] = {}
        for entry in log.glob("[0-9]*"):
            step = int(entry.name.partition(".")[0])
            if step not in entries or entry.suffix:
                entries[step] = entry
        return entries

    def skipped(self, source: int) -> Path:
        """Where it stands which files a source is to leave out."""
        return self.checkpoint / "sources" / str(source) / "skipped.json"

    def read_skipped(self, source: int) -> list[dict[str, Any]]:
        try:
            return list(json.loads(self.skipped(source).read_text("utf-8")))
        except FileNotFoundError:
            return []

    def lost_logs(self, numbers: Iterable[int]) -> list[Path]:
        """Files that should be in the logs of the table's sources, back to where each is complete."""
        begun = self.begun()
        lost = []
        for source, at in ({} if begun is None else self.file_logs(begun, numbers)).items():
            log = self.checkpoint / "sources" / str(source)
            entries = self.log_entries(log)
            step = max([at, *entries])
            while step >= 0 and not (step in entries and entries[step].suffix):
                if step not in entries:
                    lost.append(log / str(step))
                step -= 1
        return lost

    def _plan(self, batch: int) -> list[Any]:
        """Spark's own words on a batch: on its watermark, then on what it reads of each source."""
        lines = (self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[1:]
        return [None if line == "-" else json.loads(line) for line in lines]


@dataclass(frozen=True)
class AppHome:
    """The directory of one app in a home."""

    path: Path

    @property
    def views(self) -> Path:
        return self.path / "views.db"

    @property
    def plan(self) -> Path:
        return self.path / "app.json"

    @property
    def status(self) -> Path:
        return self.path / "status.json"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    def table(self, name: str) -> TableHome:
        return TableHome(self.path / "tables" / name)

    def stream(self, name: str) -> Path:
        return self.path / "streams" / name

    def read_plan(self) -> dict[str, Any] | None:
        """What was written when the app last started here, if it ever did."""
        try:
            found = json.loads(self.plan.read_text("utf-8"))
            if not isinstance(found, dict) or not isinstance(found.get("tables"), dict):
                raise ValueError("it names no tables")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise HomeUnusable(
                f"{self.plan} can't be read: {error}",
                given=self.path,
                hint="it says which definitions wrote the state that is here: bring it back as it was when "
                "the app last ran; or start anew in another home (keyfold run APP.py --home DIR)",
            ) from None
        return found

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        replace_file(self.plan, json.dumps(plan, indent=1, ensure_ascii=False).encode())


def replace_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Writes aside and renames, so that a reader or a crash sees the old file or the new one.

    What says nothing that matters after a power cut need not be `durable`.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    private.write(aside, content)
    rename_durably(aside, path) if durable else os.replace(aside, path)


def rename_durably(aside: Path, target: Path) -> None:
    """Renames a file that is on disk, and the new name with it, before anything that counts on it."""
    sync(aside)
    os.replace(aside, target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Puts a file's content, or a directory's names, on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _in_checkpoint(path: str) -> str:
    return path[path.rindex("/state/") :]


def _newest(log: Path) -> int | None:
    return max((int(p.name) for p in log.glob("[0-9]*")), default=None)


def app_home(home: Path, app: str) -> AppHome:
    """The app's directory, made if need be."""
    path = home.resolve() / app
    try:
        private.directory(path / "tables")
        # One that an earlier version made, or `mkdir`: rows and state are the owner's alone.
        private.tighten(path)
        probe = path / f".probe.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise HomeUnusable(
            f"the home can't be written: {error.strerror}",
            given=home,
            hint="another directory: --home DIR, home=..., or KEYFOLD_HOME",
        ) from None
    return AppHome(path)


def apps(home: Path) -> list[str]:
    """The apps that have run in a home, also those that have lost their app.json."""
    planned = {path.parent.name for path in home.glob("*/app.json")}
    return sorted(planned | {path.parents[2].name for path in home.glob("*/tables/*/checkpoint")})


def find(home: Path, name: str, *, table: bool = True) -> tuple[AppHome, str]:
    """The app and table that `app.table`, or `table` in a home with one app, means; or an app alone."""
    app, _, part = name.rpartition(".") if table else (name, "", "")
    known = apps(home)
    if not known:
        raise QueryError(
            f"no app has run in {home}",
            reason="not_ready",
            given=name,
            hint="keyfold run APP.py, or --home DIR",
        )
    if not app and len(known) > 1:
        hint = f"one of {', '.join(f'{a}.{part}' for a in known)}"
        raise QueryError("the home has several apps; say which", given=name, hint=hint)
    app = app or known[0]
    if app not in known:
        raise QueryError(
            f"no app {app} in {home}",
            reason="not_found",
            given=name,
            hint=did_you_mean(app, known, f"one of {', '.join(known)}"),
        )
    return AppHome(home.resolve() / app), part


def wait_until(condition: Any, seconds: float, pause: float = 0.02) -> bool:
    """Polls a condition; whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True
