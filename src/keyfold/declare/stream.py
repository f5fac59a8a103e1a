"""`Stream`: rows of a source, and the streams that are derived from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from keyfold.declare.keyed_stream import KeyedStream
from keyfold.declare.table import Table
from keyfold.errors import BadOption
from keyfold.plan.call_site import StreamLocation, call_site
from keyfold.plan.nodes import AsOf, Expr, JoinHow, Lookup, Named, Node, Select, Site, Transform, Union, Where
from keyfold.plan.tree import name_of
from keyfold.plan.validate import arguments, dedup, enrich, join, retraction
from keyfold.plan.validate.table_options import key_column

if TYPE_CHECKING:
    from keyfold.declare.app import App

Length: TypeAlias = str | timedelta | int
Within: TypeAlias = Length | tuple[Length, Length]


@dataclass(frozen=True)
class Stream:
    """Rows of a source, or derived from other streams."""

    app: App
    node: Node

    @property
    def name(self) -> str:
        """The stream's name; a derived stream has the names of its sources."""
        return name_of(self.node)

    def where(self, condition: Expr) -> Stream:
        """The rows for which the condition is true."""
        site = call_site()
        checked = arguments.expression(condition, "the condition of where", self._location(site))
        return Stream(self.app, Where(self.node, checked, site))

    def select(self, /, *items: Expr, **new: Expr) -> Stream:
        """Columns, written as in SQL, and new ones by name: `select("*", cents="amount * 100")`."""
        site = call_site()
        where = self._location(site)
        if not items and not new:
            raise BadOption(
                "select needs at least one column", where=where, hint='select("*", new="expression")'
            )
        plain = [(None, arguments.expression(item, "an item of select", where)) for item in items]
        return Stream(
            self.app, Select(self.node, (*plain, *arguments.check_named(new, "a column", where)), site)
        )

    def transform(self, fn: Callable[..., Any]) -> Stream:
        """The result of a function on the stream's DataFrame; it is called when the app starts."""
        site = call_site()
        where = self._location(site)
        checked = arguments.function(fn, 1, "the function of transform", where)
        retraction.refuse_transform(self.node, where)
        return Stream(self.app, Transform(self.node, checked, site))

    def union(self, *others: Stream) -> Stream:
        """The rows of this and other streams, with columns matched by name."""
        site = call_site()
        where = self._location(site)
        if not others:
            raise BadOption("union needs at least one other stream", where=where)
        nodes = [self._other(other, "union", where) for other in others]
        return Stream(self.app, Union((self.node, *nodes), site))

    def join(
        self,
        other: Stream,
        *,
        on: str | Sequence[str] | Callable[[], Any] | None = None,
        within: Within | None = None,
        how: JoinHow = "inner",
    ) -> Stream:
        """Joins this stream with another, by columns or a condition and by event time.

        >>> app = kf.App("shop")
        >>> orders = app.stream("orders", kf.rows([]), "id string, at timestamp", time="at")
        >>> payments = app.stream("payments", kf.rows([]), "order_id string, at timestamp", time="at")
        >>> orders.join(payments, on="orders.id = payments.order_id", within="1 hour", how="left")
        <stream orders+payments of shop>

        `on` are columns that both have, or a condition, as here. `within` is how far apart in event time the
        two rows may be; `(before, after)` is how much older and newer the other's row may be. `how` is as in
        SQL: a row without a match is emitted when it can no longer have one.
        """
        site = call_site()
        where = self._location(site)
        node = join.join(self.node, self._other(other, "join", where), on, within, how, where)
        return Stream(self.app, replace(node, site=site))

    def enrich(
        self,
        table: Table | Lookup,
        *,
        on: str | Sequence[str] | None = None,
        how: Literal["left", "inner"] = "left",
        wait: Length | None = None,
        as_of: AsOf = "arrival",
        on_update: bool = False,
        keep: str | timedelta | None = None,
    ) -> Stream:
        """Adds to each row the row of a table, or of a `kf.lookup`, with the same key.

        >>> app = kf.App("shop")
        >>> news = app.stream("news", kf.rows([]), "customer string, city string")
        >>> customers = news.by("customer").latest().table("customers")
        >>> orders = app.stream("orders", kf.rows([]), "id string, buyer string")
        >>> orders.enrich(customers, on="buyer", how="inner")
        <stream orders of shop>

        `on` are columns of this stream, in the order of the table's key; by default the columns of the same
        names. A row gets the table's row as of its arrival, or as of its event time (`as_of="event"`);
        without a match it is buffered for up to `wait`. With `on_update` rows are kept, for `keep` or
        forever, and updated when the table changes.
        """
        site = call_site()
        where = self._location(site)
        options = enrich.Options(how, wait, as_of, on_update, keep)
        if isinstance(table, Lookup):
            found = enrich.lookup_join(self.node, table, on, options, where)
            self.app._use(table, where)
            return Stream(self.app, replace(found, site=site))
        spec = self._table(table, where).spec
        node = enrich.enrich(self.node, spec, on, options, where)
        return Stream(self.app, replace(node, site=site))

    def distinct(
        self, /, *columns: str, within: str | timedelta | None = None, record_duplicates: bool = False
    ) -> Stream:
        """Drops duplicates by `columns` within ±`within` of a kept row.

        Duplicates are counted; with `record_duplicates` they are also recorded as a side output.
        """
        site = call_site()
        node = dedup.distinct(self.node, columns, within, record_duplicates, self._location(site))
        return Stream(self.app, replace(node, site=site))

    def by(self, /, *columns: str, **named: Expr) -> KeyedStream:
        """Sets the key: columns, or expressions by name, as in `by("region", day="date(at)")`."""
        site = call_site()
        where = self._location(site)
        if not columns and not named:
            raise BadOption(
                "by needs at least one key",
                where=where,
                hint="for a single row over all rows: by(all=\"'all'\")",
            )
        plain = [(key_column(column, where), column) for column in columns]
        keys: Named = (*plain, *arguments.check_named(named, "a key", where))
        arguments.unique((name for name, _ in keys), "key", where)
        return KeyedStream(self.app, self.node, keys)

    def __repr__(self) -> str:
        return f"<stream {self.name} of {self.app.name}>"

    def _location(self, site: Site | None) -> StreamLocation:
        return StreamLocation(self.app.name, self.node, site)

    def _other(self, other: object, what: str, where: object) -> Node:
        """The node of another stream of the same app."""
        advice = "a stream of the same app"
        if isinstance(other, Table):
            changes = f"{other.name}.changes()" if what == "union" else None
            advice = ", or ".join(way for way in (changes, f"enrich({other.name}, on=...)") if way)
        checked = arguments.instance(other, Stream, f"{what} takes streams", advice, where)
        self.app._own(checked.app, what, "stream", checked.name, where)
        return checked.node

    def _table(self, table: object, where: object) -> Table:
        """The table, if it belongs to the same app."""
        advice = 'a table of the same app, or kf.lookup("name", source, schema=...)'
        if isinstance(table, Stream):
            advice = "join(...) for two streams, or a table of that stream: .by(...).latest().table(...)"
        checked = arguments.instance(table, Table, "enrich takes a table or a lookup", advice, where)
        self.app._own(checked.app, "enrich", "table", checked.name, where)
        return checked
