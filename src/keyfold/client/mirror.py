"""`Mirror`: a copy of a table, kept in step with the server by its change feed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from keyfold.client import feed
from keyfold.client.connection import Connections, Ending
from keyfold.client.feed import Changes, Patience
from keyfold.client.mirror_rows import At, InFile, InMemory, MirrorRows, Row
from keyfold.client.table import RemoteTable
from keyfold.errors import QueryError
from keyfold.read.values import plain

_OWN = ("_batch", "_at")


class Mirror:
    """The rows of a table, with its own columns, as of its last batch that has come. Thread-safe.

    A thread applies each batch as a whole. After an error it has ended, and reads raise the error.
    """

    def __init__(
        self, connections: Connections, table: RemoteTable, path: Path | None, patience: float
    ) -> None:
        self._connections, self.table, self._patience = connections, table.table, patience
        self._rows: MirrorRows = InMemory() if path is None else InFile(path, table.table)
        self._ending, self._changed = Ending(), threading.Condition()
        self._error: Exception | None = None
        self._traceback: TracebackType | None = None
        self._remote = table
        self._thread = threading.Thread(target=self._run, name=f"keyfold-mirror-{self.table}", daemon=True)
        self._thread.start()
        try:
            self._wait(lambda at: at.position is not None, None)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Mirror:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.rows())

    @property
    def position(self) -> str:
        """The position behind the last batch, for `after` of reads."""
        self._raise()
        return str(self._rows.at.position)

    @property
    def batch(self) -> int | None:
        """The last batch; None before the table's first one."""
        self._raise()
        return self._rows.at.batch

    def get(self, *key: Any, **named: Any) -> Row | None:
        """A row or None, by all parts of the key: `get("eu")`, `get("eu", 7)`, `get(region="eu")`."""
        self._raise()
        given = [named[name] for name in self.keys if name in named] if named else list(key)
        if (named and key) or len(given) != len(self.keys) or len(named) > len(given):
            shown = repr(named or key)
            raise QueryError(
                "not all parts of the key", where=self.table, given=shown, hint=", ".join(self.keys)
            )
        return self._rows.get(_text(given))

    def rows(self) -> list[Row]:
        """All rows, as of one batch, in no order."""
        self._raise()
        return self._rows.all()

    @property
    def keys(self) -> list[str]:
        """The columns of the key."""
        return list(self._rows.at.keys)

    def wait(self, batch: int, timeout: float | None = None) -> int:
        """Waits until it has a batch; after `timeout` seconds it is a `QueryError` behind_bound."""
        at = self._wait(lambda at: at.batch is not None and at.batch >= batch, timeout, f"batch={batch}")
        return at.batch or 0

    def close(self) -> None:
        """Ends the mirror; a file has what it has until then."""
        self._ending.end()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._rows.close()

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:
            if not self._ending.asked:
                self._error, self._traceback = error, error.__traceback__
        finally:
            with self._changed:
                self._changed.notify_all()

    def _follow(self) -> None:
        """Applies what comes; if the log has no longer what comes next, all rows come anew.

        Until then reads have those from before.
        """
        position, waiting = self._rows.at.position, Patience(self._patience, self._ending)
        while not self._ending.asked:
            began = position is not None
            try:
                for found in self._changes(position):
                    self._apply(found)
                    began = True
                    if not found.snapshot:
                        waiting.renew()
            except QueryError as error:
                if error.reason != "gone" or not began:
                    raise
                # While a table is reset or restored, its rows and its log may be of different times.
                position = None
                waiting.pause()

    def _changes(self, position: str | None) -> Iterator[Changes]:
        tables, snapshot = [self.table], position is None
        return feed.follow(self._connections, tables, snapshot, position, self._patience, self._ending)

    def _apply(self, found: Changes) -> None:
        keys = self._declared_keys() if found.snapshot else self._rows.at.keys
        rows: dict[str, Row | None] = {}
        for row in found.rows:
            rows[_text([row[name] for name in keys])] = {n: v for n, v in row.items() if n not in _OWN}
        for change in found.changes:
            key = _text([change["key"][name] for name in keys])
            rows[key] = change["after"]
        at = At(found.position, found.batch, keys)
        with self._changed:
            self._rows.change(rows, at, replace=found.snapshot)
            self._changed.notify_all()

    def _declared_keys(self) -> tuple[str, ...]:
        waiting = Patience(self._patience, self._ending)
        while True:
            try:
                return tuple(self._remote.schema["keys"])
            except QueryError as error:
                if self._ending.asked:
                    raise
                waiting.wait(error)

    def _wait(self, reached: Callable[[At], bool], timeout: float | None, given: str | None = None) -> At:
        with self._changed:
            done = self._changed.wait_for(lambda: self._ended() or reached(self._rows.at), timeout)
            at = self._rows.at
        if not done:
            what = f"the mirror is at batch {at.batch} after {timeout:g} s"
            hint = "wait longer, or for an earlier batch"
            raise QueryError(what, reason="behind_bound", where=self.table, given=given, hint=hint)
        if not reached(at):
            self._raise()
        return at

    def _ended(self) -> bool:
        return self._error is not None or self._ending.asked

    def _raise(self) -> None:
        """Raises what has ended the mirror."""
        if self._error is not None:
            # Each raise adds to the traceback.
            raise self._error.with_traceback(self._traceback)
        if self._ending.asked:
            hint = "another mirror, which goes on from its file"
            raise QueryError("the mirror is closed", reason="not_ready", where=self.table, hint=hint)


def _text(key: Sequence[Any]) -> str:
    """A key as text, by the values that JSON has."""
    return json.dumps(plain(list(key)), ensure_ascii=False)
