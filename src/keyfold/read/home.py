"""`HomeReader`: reads the apps of a home."""

from __future__ import annotations

import os
from pathlib import Path

from keyfold.engine.storage import home_names
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption, QueryError
from keyfold.read.app import AppReader
from keyfold.views.reader import TableReader


class HomeReader:
    """Reads the apps of a home; `directory` has its local files, and `storage` all others if given."""

    def __init__(self, directory: Path, storage: Storage | None = None) -> None:
        self.directory, self._storage = directory, storage
        self._opened: dict[Path, AppReader] = {}

    def __enter__(self) -> HomeReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the views of all apps that were read."""
        for app in self._opened.values():
            app.close()
        self._opened.clear()

    def names(self) -> list[str]:
        """The names of the apps that have run in the home."""
        if self._storage is None:
            return home_names.apps(self.directory)
        return home_names.apps_in(self._storage)

    def apps(self) -> list[AppReader]:
        """All apps of the home; if none has run there, a `QueryError` not_ready."""
        return [self._reader(self._home(name)) for name in self.names()] or [self.app("")]

    def app(self, name: str) -> AppReader:
        """An app by its name."""
        return self._reader(self._find(name, table=False)[0])

    def find(self, name: str, *, any_files: bool = False) -> tuple[AppReader, str]:
        """The app of `app.table`, or of `table` in a home with one app; and the part of the name behind it.

        Nothing is said of the table: it may be any, also a stream. `any_files`: also an app of which nothing
        is left but files of tables, on a local disk.
        """
        try:
            home, part = self._find(name, table=True)
        except QueryError:
            app, _, part = name.rpartition(".")
            has_files = self._storage is None and (self.directory / app / "tables").is_dir()
            if not (any_files and app and has_files):
                raise
            home = self._home(app)
        return self._reader(home), part

    def table(self, name: str) -> TableReader:
        """The rows of `app.table`, or of `table` in a home with one app."""
        app, part = self.find(name)
        return app.table(part)

    def whole_app(self, name: str | None) -> AppReader:
        """The app of that name, or the only one; also one that has savepoints and nothing else."""
        known, home = self._with_savepoints(), self._shown
        if name is None and len(known) > 1:
            hint = f"--app NAME, one of: {', '.join(known)}"
            raise BadOption("the home has several apps", given=home, hint=hint)
        chosen = home_names.resolve(name or (known[0] if known else ""), home, known, table=False)[0]
        return self._reader(self._home(chosen))

    def _with_savepoints(self) -> list[str]:
        if self._storage is None:
            saved = (path.parent.name for path in self.directory.glob("*/savepoints"))
            return sorted({*self.names(), *saved})
        return [
            app for app in self._storage.list() if {"app.json", "savepoints"} & set(self._storage.list(app))
        ]

    @property
    def _shown(self) -> object:
        return self.directory if self._storage is None else self._storage.uri()

    def _find(self, name: str, *, table: bool) -> tuple[AppHome, str]:
        if self._storage is None:
            return home_names.find(self.directory, name, table=table)
        app, part = home_names.resolve(name, self._shown, self.names(), table=table)
        return self._home(app), part

    def _home(self, app: str) -> AppHome:
        if self._storage is None:
            return AppHome(self.directory.resolve() / app)
        return AppHome(self.directory / app, self._storage.below(app))

    def _reader(self, home: AppHome) -> AppReader:
        return self._opened.setdefault(home.path, AppReader(home))


def open_home(path: str | os.PathLike[str] | None = None, *, storage: Storage | None = None) -> HomeReader:
    """Reads a home from any process, without Spark: a directory, or by default that of `KEYFOLD_HOME`.

    Of a home elsewhere, such as `s3a://bucket/shop`, that reads the local files: views and status. With
    `storage`, which reads the home's other files, also logs and all that is in them.
    """
    return HomeReader(home_names.home_of(path), storage)
