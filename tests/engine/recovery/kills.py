"""Ends a command at any of its steps as kill -9 would: from then on nothing of it reaches the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from keyfold.engine.savepoint import archive
from keyfold.engine.storage import layout
from keyfold.engine.storage.local import LocalStorage
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.views.sqlite.file import SqliteFile

_STEPS = ("put", "put_new", "delete", "copy", "send")
_WRITERS = ((SqliteFile, "restore_from"), (layout, "replace_file"), (archive, "rename_durably"))
"""What writes a file without a storage: methods, and functions as modules have imported them."""


class Killed(BaseException):
    """The process has ended."""


class Steps:
    """Counts what is about to be written, and ends the process before one of them.

    The lease is left alone: a killed process does not hold it, and this process lives on.
    """

    def __init__(self, last: int | None, point: FaultPoint | None) -> None:
        self.kinds: list[str] = []
        self.dead = False
        self._last, self._point = last, point
        self._counting = threading.Lock()

    @property
    def taken(self) -> int:
        """How many steps were begun."""
        return len(self.kinds)

    def turns(self) -> list[int]:
        """The steps at which to end, of all that were taken: of files in a row the first and the last."""
        kinds = self.kinds
        same = [
            kind in ("copy", "send") and kinds[at - 1 : at + 2] == [kind] * 3 for at, kind in enumerate(kinds)
        ]
        return [at for at, inside in enumerate(same) if not inside]

    def take(self, name: str, kind: str) -> bool:
        """Counts a step; whether the process ends in the middle of it. After that, every step fails."""
        if name.startswith("lease/"):
            return False
        with self._counting:
            if self.dead:
                raise Killed
            self.kinds.append(kind)
            self.dead = self._last is not None and self.taken > self._last
            return self.dead

    def reached(self, point: FaultPoint, facts: dict[str, Any]) -> None:
        """A named point, at which the process may end too."""
        if point == self._point and "lease" not in str(facts.get("name")):
            self.dead = True
            raise Killed


@contextmanager
def steps(last: int | None = None, point: FaultPoint | None = None) -> Iterator[Steps]:
    """Within it, what is written in a home is counted; the process ends after `last` steps, or at a point."""
    counted = Steps(last, point)
    with ExitStack() as patches:
        for name in _STEPS:
            stepping = _stepping(counted, name, getattr(LocalStorage, name))
            patches.enter_context(patch.object(LocalStorage, name, stepping))
        for module, name in _WRITERS:
            patches.enter_context(patch.object(module, name, _writing(counted, getattr(module, name))))
        patches.enter_context(handled_by(counted.reached))
        yield counted


def _stepping(counted: Steps, kind: str, act: Callable[..., Any]) -> Callable[..., Any]:
    def step(storage: LocalStorage, *given: Any, **options: Any) -> Any:
        name = given[1] if kind in ("copy", "send") else given[0]
        if counted.take(name, kind):
            if kind == "delete":
                _half_deleted(storage.root / name)
            raise Killed
        return act(storage, *given, **options)

    return step


def _writing(counted: Steps, write: Callable[..., None]) -> Callable[..., None]:
    def step(path: Path, *given: Any, **options: Any) -> None:
        if counted.take(path.name, "replace"):
            raise Killed
        write(path, *given, **options)

    return step


def _half_deleted(path: Path) -> None:
    """A directory that was being removed: every second file of it is gone."""
    if path.is_dir():
        for file in sorted(one for one in path.rglob("*") if one.is_file())[::2]:
            file.unlink()
