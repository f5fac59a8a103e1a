"""`kf.read_table`: a table of an app in any process, by its home or by the topic that has its changes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, overload

from keyfold.engine.kafka import reading
from keyfold.engine.storage.home_names import find, home_of
from keyfold.errors import BadOption
from keyfold.plan.call_site import call_site
from keyfold.views.reader import TableReader


@overload
def read_table(table: str, /, *, home: str | os.PathLike[str] | None = None) -> TableReader: ...
@overload
def read_table(
    servers: str, topic: str, *, registry: str | None = None, options: Mapping[str, str] | None = None
) -> list[dict[str, Any]]: ...
def read_table(
    servers: str,
    topic: str | None = None,
    *,
    home: str | os.PathLike[str] | None = None,
    registry: str | None = None,
    options: Mapping[str, str] | None = None,
) -> TableReader | list[dict[str, Any]]:
    """A table of an app that runs in this process or another, or that has stopped; it needs no Spark.

    >>> totals = kf.read_table("shop.totals", home="/srv/shop/.keyfold")  # doctest: +SKIP
    >>> totals.pandas(order_by="revenue desc")  # doctest: +SKIP

    By name, `app.table`, or `table` in a home with one app: a reader of its view, in which each read has the
    rows of that moment. Without `home`: `KEYFOLD_HOME`, else `.keyfold`; the directory of another setting
    `local` will do as well.

    >>> rows = kf.read_table("127.0.0.1:9092", "totals")  # doctest: +SKIP

    By servers and topic: the rows as the topic's changes leave them, the latest of each key that was not
    deleted. For a topic that has all changes, such as a table's `history`; `registry` and `options` are those
    of `kf.read_changes`.
    """
    # A table's name has no colon, and servers have ports.
    by_topic = topic is not None or ":" in servers
    other = home if by_topic else registry or options
    if other is not None:
        raise BadOption(
            "a table is read by its home or by a topic",
            where=call_site(),
            given="servers and home=" if by_topic else "registry= or options=, and no topic",
            hint='kf.read_table("shop.totals", home=".keyfold"), or kf.read_table("host:9092", "totals")',
        )
    if by_topic:
        return reading.read_topic(servers, topic, registry=registry, options=options)
    app_home, name = find(home_of(home), servers)
    return TableReader(app_home.views.open(read_only=True), name)
