"""The home on disk: where the files of apps and tables are.

```
<local>/spark.log  java.log  log4j2.properties
<local>/.tmp/<run>/        temporary files of a JVM
<home>/<app>/lease/<epoch>.json  which process may write, and its heartbeat
<home>/<app>/app.json      plan and fingerprints of the running definition
<home>/<app>/compiled.json what Spark made of that definition, on a local disk; can be lost
<local>/<app>/views.db     views, unless they are in a store that is not local
<local>/<app>/status.json  metrics of a running app, or its last ones
<home>/<app>/local.json    where <local> is, if it is not the home
<home>/<app>/views.json    the store of the views, if it is not local
<home>/<app>/streams/<s>/  rows of kf.rows; log/ and checkpoint/ of a stream that has a log
<home>/<app>/tables/<t>/   checkpoint/  log/ (changes and side outputs, batch by batch)  sinks/<name>.json
<home>/<app>/tables/<t>/   topics.json (of which topics of Kafka the positions in the checkpoint are)
<home>/<app>/tables/<t>/   side/ (replayed late rows)  control/ (rows that only advance event time)
<home>/<app>/tables/<t>/   inputs/<n>-<table>/ (of each use of another table: the snapshot it begins with)
```
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyfold import private
from keyfold.engine.storage import views_address
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.files import replace_file
from keyfold.engine.storage.local import LocalStorage
from keyfold.engine.storage.local_directory import claim, local_directory, owner, use_local_directory
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.errors import HomeUnusable
from keyfold.views.contract import Location, Views
from keyfold.views.stores import views_at


@dataclass(frozen=True)
class TableHome:
    """The directory of one table, or of a stream that has a log.

    `remote` is the storage of its app's durable files, if they are not below `path`.
    """

    path: Path
    remote: Storage | None = None

    @property
    def storage(self) -> Storage:
        """The storage of the table's durable files."""
        if self.remote is not None:
            return self.remote.below(f"{self.path.parent.name}/{self.path.name}")
        return LocalStorage(self.path)

    @property
    def app(self) -> AppHome:
        """The home of the table's app."""
        return AppHome(self.path.parents[1], self.remote)

    @property
    def shown(self) -> str:
        """The table's directory for people: a path on a local disk, or a URI."""
        return self.storage.uri().removeprefix("file://")

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of a home on a local disk."""
        return self.path / "checkpoint"

    @property
    def checkpoint_url(self) -> str:
        """The checkpoint for Spark."""
        return self.storage.uri("checkpoint")

    @property
    def log(self) -> Path:
        """The log of a home on a local disk."""
        return self.path / "log"

    @property
    def log_url(self) -> str:
        """The log for Spark, like `checkpoint_url`."""
        return self.log_files.uri()

    @property
    def log_files(self) -> Storage:
        """The files of the table's log."""
        return self.storage.below("log")

    @property
    def side(self) -> Storage:
        """The directory of replayed late rows."""
        return self.storage.below("side")

    def sink(self, name: str) -> StoredFile:
        """The position of a sink, under a name that is unique even on file systems that ignore case."""
        return StoredFile(self.storage, f"sinks/{name.lower()}.json")

    def control(self, stream: str) -> Storage:
        """The directory of rows that only advance a stream's event time."""
        return self.storage.below(f"control/{stream}")

    @property
    def spark(self) -> SparkCheckpoint:
        """Spark's files in the checkpoint."""
        return SparkCheckpoint(self.storage.below("checkpoint"))

    def planned_batch(self) -> int | None:
        """The newest batch that Spark has planned."""
        return self.spark.planned_batch()

    def committed_batch(self) -> int | None:
        """The newest batch that Spark has committed."""
        return self.spark.committed_batch()

    def sweep(self) -> None:
        """Removes the temporary files of a killed process."""
        storage = self.storage
        nested = [f"{name}/{below}" for name in ("inputs", "control") for below in storage.list(name)]
        for directory in ("side", "sinks", *nested):
            storage.sweep(directory)


@dataclass(frozen=True)
class AppHome:
    """The directory of one app in a home; `remote` has its durable files if they are not below `path`."""

    path: Path
    remote: Storage | None = None

    @property
    def storage(self) -> Storage:
        """The storage of the app's durable files."""
        return self.remote or LocalStorage(self.path)

    @property
    def local(self) -> Path:
        """The directory of the driver's own files, which can be lost."""
        return self.path if self.remote is not None else local_directory(self.storage, self.path)

    def use_local(self, directory: Path | None) -> None:
        """Sets the directory of the local files of all apps; None: the home. Needs the lease."""
        if self.remote is not None:
            claim(self.path, self.storage)
        else:
            use_local_directory(self.storage, self.path, directory and directory / self.path.name)

    def record_views(self, address: str) -> None:
        """Records which store has the app's views. Needs the lease."""
        # Of a home elsewhere also beside the local files, for commands that have no Spark to read it with.
        for storage in (self.storage, LocalStorage(self.path)):
            views_address.record(storage, address)

    @property
    def views(self) -> Views:
        """The app's views in the store that has them."""
        return self.views_at(self.views_address)

    @property
    def views_address(self) -> str:
        """The address of that store, as recorded."""
        return views_address.read(self.storage)

    def views_at(self, address: str) -> Views:
        """The app's views in a store, whether or not that has them."""
        home = owner(self.path) or self.storage.uri()
        return views_at(Location(address, self.path.name, home, self.local))

    @property
    def plan(self) -> Path:
        return self.path / "app.json"

    @property
    def shown(self) -> str:
        """The app's home for people: a path on a local disk, or a URI."""
        return self.storage.uri().removeprefix("file://")

    @property
    def views_elsewhere(self) -> bool:
        """Whether the views are not in the home, so that they may miss changes to it."""
        return self.remote is not None or not self.views.is_in(self.path)

    @property
    def status(self) -> Path:
        return self.local / "status.json"

    def table(self, name: str) -> TableHome:
        if self.remote is None and (home := owner(self.path)) is not None and not home.startswith("file:"):
            raise HomeUnusable(
                f"these are the local files of {self.path.name}; its logs and state are in its home",
                given=home,
                hint=f"--home {home.rpartition('/')[0]}; views and status can be read here",
            )
        return TableHome(self.path / "tables" / name, self.remote)

    def stream(self, name: str) -> Storage:
        """The directory of a stream's own files."""
        return self.storage.below(f"streams/{name}")

    def stream_home(self, name: str) -> TableHome:
        """The directory of a stream that has a log, which is laid out like a table's."""
        return TableHome(self.path / "streams" / name, self.remote)

    def read_plan(self) -> StoredApp:
        """The plan that the last start recorded; an empty one before the first start."""
        try:
            return StoredApp.from_json(json.loads(self.storage.read("app.json")))
        except FileNotFoundError:
            return StoredApp()
        except (OSError, ValueError) as error:
            raise HomeUnusable(
                f"{self.shown}/app.json can't be read: {error}",
                given=self.shown,
                hint="it records which definitions wrote the state: restore it as it was when the app "
                "last ran; or start from scratch in another home (keyfold run APP.py --home DIR)",
            ) from None

    def write_plan(self, plan: StoredApp) -> None:
        """Records the plan of a starting app."""
        content = json.dumps(plan.to_json(), indent=1, ensure_ascii=False).encode()
        self.storage.put("app.json", content)
        if self.remote is not None:
            # For commands that read the local files, and have no Spark to read others with.
            private.directory(self.path)
            replace_file(self.plan, content, durable=False)

    def read_status(self) -> dict[str, Any]:
        """The newest status of the app; empty if there is no readable one.

        The status is informational and not written durably, so a damaged one is not an error.
        """
        try:
            found = json.loads(self.status.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Publishes the app's status to other processes."""
        text = json.dumps(status, default=lambda value: value.isoformat())
        replace_file(self.status, text.encode(), durable=False)


def local_app_home(home: Path, app: str) -> AppHome:
    """The app's directory, created if it does not exist."""
    path = home.resolve() / app
    try:
        private.directory(path / "tables")
        # It may have been created by `mkdir`; only the owner may read rows and state.
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


def remote_app_home(storage: Storage, local: Path, app: str) -> AppHome:
    """An app's home in a given storage, with local files in a directory of all apps."""
    try:
        storage.put(".probe", b"")
        storage.delete(".probe")
        private.directory(local / app / "tables")
    except OSError as error:
        raise HomeUnusable(
            f"the home can't be written: {error.strerror or error}",
            given=storage.uri(),
            hint="check the address, the credentials, and that Spark has the packages for it; or use another "
            "home: --home DIR, home=..., or KEYFOLD_HOME",
        ) from None
    return AppHome(local / app, storage)
