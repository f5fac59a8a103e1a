"""`kf.initial` and `kf.savepoint`: what a table begins with, before the rows of its stream, as plain data."""

from __future__ import annotations

import os
from datetime import datetime

from keyfold.plan.call_site import call_site
from keyfold.plan.initial import InitialRows, InitialState
from keyfold.plan.nodes import Connector
from keyfold.plan.validate import arguments
from keyfold.plan.validate.initial import initial_rows


def initial(source: Connector, *, until: str | datetime | None = None) -> InitialRows:
    """Files that a table begins with: `table(..., initial=kf.initial(kf.files(...), until=...))`.

    >>> archive = kf.initial(kf.files("archive", format="parquet"), until="2026-01-01T00:00:00Z")

    `until` is the boundary, an event time: rows of the files count before it, rows of the stream from then
    on. By default it is right after the newest row of the files, as with `initial=kf.files(...)`.
    """
    site = call_site()
    advice = 'kf.files("archive/*.parquet", format="parquet")'
    checked = arguments.instance(source, Connector, "initial takes files", advice, site)
    return initial_rows(checked, until, site)


def savepoint(
    name: str,
    *,
    app: str | None = None,
    table: str | None = None,
    home: str | os.PathLike[str] | None = None,
) -> InitialState:
    """The state of a table in a savepoint, for `table(..., initial=...)`; the table continues from there.

    >>> state = kf.savepoint("before-the-move", app="shop", table="totals")

    By default the savepoint is one of the same app, table and home.
    """
    site = call_site()
    arguments.instance(name, str, "the name of a savepoint must be a string", 'kf.savepoint("name")', site)
    for what, given in (("app", app), ("table", table)):
        if given is not None:
            arguments.identifier(given, what, site)
    return InitialState(name, app, table, None if home is None else os.fspath(home))
