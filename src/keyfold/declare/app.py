"""`App`: declares streams and tables, and starts them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

from keyfold.declare.stream import Stream
from keyfold.declare.table import Table
from keyfold.errors import BadOption, NameTaken
from keyfold.plan import durations
from keyfold.plan.call_site import call_site, location
from keyfold.plan.describe import text
from keyfold.plan.nodes import AppSpec, Connector, Lookup, Node, OnError, Site, Source, TableSpec
from keyfold.plan.validate import arguments, tombstones
from keyfold.plan.validate.sources import FUTURE, event_time, recording, stream_schema
from keyfold.plan.validate.table_options import private_columns

if TYPE_CHECKING:
    from keyfold.engine.handle import Handle


class App:
    """A named set of streams and tables.

    >>> app = kf.App("shop", help="Orders of the shop")

    `every` is the time between batches (by default a batch starts as soon as there is input),
    `snapshot_every` the number of batches between full snapshots of the state.
    """

    def __init__(
        self,
        name: str,
        every: str | timedelta | None = None,
        snapshot_every: int | None = None,
        help: str = "",
    ) -> None:
        site = call_site()
        self._name = arguments.identifier(name, "an app", site)
        where = location(name, site)
        self._every_ms = None if every is None else durations.millis(every, "every", where=where)
        self._snapshot_every = (
            None if snapshot_every is None else arguments.positive(snapshot_every, "snapshot_every", where)
        )
        self._help = arguments.help_text(help, where)
        self._streams: dict[str, Source] = {}
        self._tables: dict[str, TableSpec] = {}
        self._lookups: dict[str, Lookup] = {}

    @property
    def name(self) -> str:
        """The app's name."""
        return self._name

    def stream(
        self,
        name: str,
        source: Connector,
        schema: str | None = None,
        time: str | None = None,
        late: str | timedelta | int = 0,
        future: str | timedelta | int | None = FUTURE,
        history: str | timedelta | None = None,
        shared: bool | None = None,
        help: str = "",
    ) -> Stream:
        """Declares a stream: rows of a source, with a schema in DDL, event time and allowed lateness.

        A row whose event time is more than `future` ahead of the clock is rejected, so that one wrong clock
        doesn't close every window; None accepts any time.

        With `shared` the rows are parsed and checked once, into a log that all tables of the stream read;
        by default they are if two or more tables read the stream and its rows are text or messages. `history`
        is how long recorded rows stay readable, so that a table can be added or rebuilt later; it implies
        `shared`.
        """
        site = call_site()
        arguments.identifier(name, "a stream", location(self._name, site))
        where = location(f"{self._name}.{name}", site)
        self._claim(name, "stream", site)
        advice = 'kf.files("data"), kf.kafka("host:9092", topic="t"), kf.rows([...]) or kf.spark("format")'
        connector = arguments.instance(source, Connector, "stream takes a source", advice, where)
        columns, checked = stream_schema(connector, schema, where)
        help_text = arguments.help_text(help, where)
        event = event_time(time, late, future, columns, where)
        node = Source(
            name,
            connector,
            checked,
            event.column,
            event.late_ms,
            help_text,
            event.future_ms,
            *recording(history, shared, where),
            site=site,
        )
        tombstones.check_stream(node, where)
        self._streams[name.lower()] = node
        return Stream(self, node)

    def spec(self) -> AppSpec:
        """The app as plain data, as declared so far."""
        return AppSpec(
            name=self._name,
            every_ms=self._every_ms,
            snapshot_every=self._snapshot_every,
            help=self._help,
            streams=tuple(self._streams.values()),
            tables=tuple(self._tables.values()),
        )

    def describe(self, format: Literal["text", "json", "mermaid"] = "text") -> str:
        """The app for people ("text"), for programs ("json") or as a diagram ("mermaid")."""
        return text.describe(self.spec(), format)

    def start(self, spark: Any = None, home: Any = None, **settings: Any) -> Handle:
        """Starts the app's queries, on your Spark session or on a new one, and returns a handle."""
        from keyfold.engine.start import start

        return start(self.spec(), spark=spark, home=home, settings=settings)

    def __repr__(self) -> str:
        return f"App({self._name!r})"

    def _claim(self, name: str, kind: str, site: Site | None) -> None:
        """Refuses the name of another stream or table: rejected rows are read by either."""
        lower = name.lower()
        first: Source | TableSpec | None = self._streams.get(lower) or self._tables.get(lower)
        if first is None:
            return
        other = "stream" if isinstance(first, Source) else "table"
        spelled = "" if first.name == name else f" as {first.name!r}: names are case-insensitive"
        raise NameTaken(
            f"{kind} {name!r} has the name of a {other} that is declared at {first.site}{spelled}",
            where=location(f"{self._name}.{name}", site),
            hint="another name",
        )

    def _table_location(self, name: str, site: Site | None) -> str | None:
        """The location of a new table, for errors; refuses names that are not allowed or taken."""
        arguments.table_name(name, location(self._name, site))
        self._claim(name, "table", site)
        return location(f"{self._name}.{name}", site)

    def _declare(
        self,
        spec: TableSpec,
        partitions: object,
        on_error: object,
        private: object,
        help: object,
        where: object,
    ) -> Table:
        """Adds a table, with the options that all kinds of tables have."""
        tombstones.check_table(spec, where)
        checked = replace(
            spec,
            partitions=None if partitions is None else arguments.positive(partitions, "partitions", where),
            on_error=cast(OnError, arguments.one_of(on_error, ("reject", "fail"), "on_error", where)),
            private=private_columns(private, spec, where),
            help=arguments.help_text(help, where),
        )
        return self._put(checked)

    def _put(self, spec: TableSpec) -> Table:
        self._tables[spec.name.lower()] = spec
        return Table(self, spec.name)

    def _stream(self, node: Node) -> Stream:
        return Stream(self, node)

    def _own(self, other: App, what: str, kind: str, name: str, where: object) -> None:
        """Refuses a stream or table of another app."""
        if other is not self:
            problem = f"{what} takes {kind}s of the same app, and {name!r} belongs to app {other.name!r}"
            raise BadOption(problem, where=where, hint=f"declare the {kind} in app {self._name!r} as well")

    def _use(self, lookup: Lookup, where: object) -> None:
        """Refuses a lookup if the app uses another one of the same name."""
        first = self._lookups.setdefault(lookup.name.lower(), lookup)
        if first == lookup:
            return
        raise NameTaken(
            f"lookup {lookup.name!r} has the name of another lookup that is declared at {first.site}",
            where=where,
            given=f"kf.lookup({lookup.name!r}, ...) at {lookup.site}",
            hint="another name for one of them, or one kf.lookup(...) for both",
        )
