"""Every command that changes an app's state on disk, and the rows that the app's tables have afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import keyfold as kf
from keyfold.cli.main import main
from keyfold.engine.handle import Handle
from tests.operations.sources import TABLES, WINDOWED, Row, World, declared

FIRST: Final = [
    *({"k": k, "x": x, "t": f"2026-01-01T00:00:0{x}Z"} for x, k in enumerate("abcd", 1)),
    *({"k": k, "x": 10 * x, "t": "2026-01-01T00:01:00Z"} for x, k in enumerate("abcd", 1)),
]
"""Rows of two windows, of which the second closes the first."""
LATE: Final[list[Row]] = [{"k": "a", "x": 100, "t": "2026-01-01T00:00:03Z"}]
NEW: Final[list[Row]] = [
    {"k": "a", "x": 7, "t": "2026-01-01T00:01:01Z"},
    {"k": "e", "x": 5, "t": "2026-01-01T00:01:02Z"},
]
"""What comes after the operation; of `a`, which some operations take away, in a window that is open."""
FORGOTTEN: Final = "a"


@dataclass
class Stopped:
    """An app that has read `FIRST` and `LATE`, and is stopped; `NEW` is there to be read."""

    world: World
    home: Path
    spark: Any
    name: str = "shop"
    more: bool = False

    def __call__(self, *words: object) -> None:
        """Calls the command line; `APP` stands for the app's file."""
        given = [str(self._file() if word == "APP" else word) for word in words]
        assert main([*given, "--home", str(self.home)]) == 0, given

    def app(self, rows: list[Row]) -> kf.App:
        """The app as it is declared by now."""
        return declared(self.world, rows, more=self.more, name=self.name)

    def started(self, rows: list[Row]) -> Handle:
        """The running app, when it has read what there is."""
        handle = self.app(rows).start(spark=self.spark, home=self.home)
        try:
            handle.drain()
        except BaseException:
            handle.stop()
            raise
        return handle

    def _file(self) -> Path:
        """An app's file with what is declared; `kf.rows` has only what earlier starts have read."""
        APPS[str(self.home)] = self.app([*FIRST, *LATE])
        file = self.home / "app.py"
        file.write_text(f"from tests.operations.operations import APPS\napp = APPS[{str(self.home)!r}]\n")
        return file


APPS: Final[dict[str, kf.App]] = {}
"""The apps of files."""


def each(
    *words: str, tables: tuple[str, ...] = WINDOWED, after: tuple[object, ...] = ()
) -> Callable[[Stopped], None]:
    """A command that is carried out for each table."""

    def act(app: Stopped) -> None:
        for table in tables:
            app(*words, f"{app.name}.{table}", *after)

    return act


def savepoint(*commands: tuple[str, ...]) -> Callable[[Stopped], None]:
    """A savepoint, after which the app continues, and its use; `FILE` is one outside the home."""

    def act(app: Stopped) -> None:
        app("savepoint", "create", "then", "--state")
        app.started([*FIRST, *LATE, *NEW]).stop()
        for command in commands:
            file = app.home.with_suffix(".tar")
            app("savepoint", *(str(file) if word == "FILE" else word for word in command))

    return act


def live_savepoint(app: Stopped) -> None:
    handle = app.started([*FIRST, *LATE, *NEW])
    try:
        handle.savepoint("then")
    finally:
        handle.stop()
    app("savepoint", "restore", "then", "--yes")


def clone(app: Stopped) -> None:
    app("savepoint", "create", "then")
    app("savepoint", "clone", "then", "copy")
    app.name = "copy"


def migrate(app: Stopped) -> None:
    app.more = True
    app("migrate", "APP")


def nothing(app: Stopped) -> None:
    """A start without an operation."""


COUNTED = [*FIRST, *NEW]
ALL = [*FIRST, *LATE, *NEW]
WITHOUT = [row for row in FIRST if row["k"] != FORGOTTEN] + NEW


@dataclass(frozen=True)
class Operation:
    """What is done, and the rows that the tables have folded after it and the next start."""

    act: Callable[[Stopped], None]
    rows: list[Row]
    added: bool = False
    """Whether a column is added, which counts the rows after it."""
    quick: bool = True
    """Whether it is tested each time, and not only in the long run."""


RESTORE: Final = ("restore", "then", "--yes")
OPERATIONS: Final = {
    "start": Operation(nothing, COUNTED),
    "side replay": Operation(each("side", "replay", "late"), ALL),
    "forget": Operation(each("forget", after=(FORGOTTEN, "--yes")), WITHOUT),
    "rescale": Operation(each("rescale", tables=TABLES, after=(3,)), COUNTED),
    "migrate": Operation(migrate, COUNTED, added=True),
    "rebuild": Operation(lambda app: app("rebuild", "APP", *WINDOWED, "--with-readers", "--partial"), ALL),
    "reset": Operation(each("reset", after=("--with-readers", "--yes")), ALL),
    "drop": Operation(each("drop", after=("--yes",), tables=(*TABLES[::-1],)), ALL, quick=False),
    "savepoint create": Operation(savepoint(RESTORE), COUNTED),
    "savepoint create --live": Operation(live_savepoint, COUNTED),
    "savepoint restore": Operation(savepoint(("restore", "then", *TABLES, "--yes")), COUNTED, quick=False),
    "savepoint clone": Operation(clone, COUNTED),
    "savepoint import": Operation(
        savepoint(("export", "then", "FILE"), ("delete", "then"), ("import", "FILE"), RESTORE),
        COUNTED,
        quick=False,
    ),
    "state delete": Operation(each("state", "delete", after=(FORGOTTEN,)), WITHOUT, quick=False),
    "log compact": Operation(each("log", "compact", tables=TABLES), COUNTED, quick=False),
    "log prune": Operation(each("log", "prune"), COUNTED, quick=False),
    "side drop": Operation(each("side", "drop", "late"), COUNTED, quick=False),
    "verify": Operation(lambda app: app("verify", "APP", "--repair"), COUNTED, quick=False),
}
"""By the words of the command."""
ELSEWHERE: Final = {
    "savepoint export": "with savepoint import",
    "savepoint delete": "with savepoint import",
    "savepoint prune": "deletes as savepoint delete does",
    "state put": "of tables without windows: tests/engine/recovery/test_surgery.py",
}
READING: Final = {
    *("init", "run", "serve", "get", "rows", "demo", "status", "plan", "describe"),
    *("check", "doctor", "dev app", "dev kafka", "dev load", "side list", "side show", "log show"),
    *("log verify", "views ddl", "pattern explain", "savepoint list", "savepoint show", "savepoint verify"),
    *("audit list", "audit verify", "state size", "state read", "state diff", "state history"),
    *("token create", "token list", "token revoke"),
}
"""Commands that change no state by themselves."""


def id_of(name: str) -> str:
    """An operation as the id of a test, which has no spaces, so that `tests/core.py` can list it."""
    return name.replace(" --", "-").replace(" ", "-")
