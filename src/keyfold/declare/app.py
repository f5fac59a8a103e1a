"""An app, and the names that are taken in it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

from keyfold.declare.stream import Stream
from keyfold.declare.table import Table
from keyfold.errors import BadOption, NameTaken
from keyfold.plan import durations
from keyfold.plan.call_site import here, place
from keyfold.plan.describe import text
from keyfold.plan.nodes import AppSpec, Connector, Lookup, Node, OnError, Site, Source, TableSpec
from keyfold.plan.validate import arguments
from keyfold.plan.validate.sources import FUTURE, event_time, stream_schema

if TYPE_CHECKING:
    from keyfold.engine.handle import Handle


class App:
    """A named set of streams and tables.

    >>> app = kf.App("shop", help="Orders of the shop")

    `every` is the time between batches (default: as soon as there is input), `snapshot_every` the number of
    batches between full snapshots of the state.
    """

    def __init__(
        self,
        name: str,
        every: str | timedelta | None = None,
        snapshot_every: int | None = None,
        help: str = "",
    ) -> None:
        site = here()
        self._name = arguments.identifier(name, "an app", site)
        where = place(name, site)
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
        help: str = "",
    ) -> Stream:
        """Declares a stream: rows of a source, with a schema in DDL, an event time and a lateness.

        A row whose `time` is more than `future` ahead of the clock is rejected, so that one bad clock can't
        close every window; None takes any.
        """
        site = here()
        arguments.identifier(name, "a stream", place(self._name, site))
        where = place(f"{self._name}.{name}", site)
        self._claim(name, "stream", site)
        advice = 'kf.files("data"), kf.rate(), kf.rows([...]) or kf.spark("format")'
        connector = arguments.instance(
            source, Connector, "the source of a stream must be a source", advice, where
        )
        columns, checked = stream_schema(connector, schema, where)
        told = arguments.help_text(help, where)
        event = event_time(time, late, future, columns, where)
        node = Source(name, connector, checked, event.column, event.late_ms, told, event.future_ms, site)
        self._streams[name.lower()] = node
        return Stream(self, node)

    def spec(self) -> AppSpec:
        """The whole app as plain data, as it is declared now."""
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
        """Starts the app's queries, on a session of your own or one made for it, and returns a handle."""
        from keyfold.engine.start import start

        return start(self.spec(), spark=spark, home=home, settings=settings)

    def __repr__(self) -> str:
        return f"App({self._name!r})"

    def _claim(self, name: str, kind: str, site: Site | None) -> None:
        """Refuses a name that a stream or a table has: reads of rejected rows take either."""
        lower = name.lower()
        first: Source | TableSpec | None = self._streams.get(lower) or self._tables.get(lower)
        if first is None:
            return
        other = "stream" if isinstance(first, Source) else "table"
        spelled = "" if first.name == name else f" as {first.name!r}, and case makes no difference"
        raise NameTaken(
            f"{kind} {name!r} can't be declared: a {other} of that name is declared at {first.site}{spelled}",
            where=place(f"{self._name}.{name}", site),
            hint="another name",
        )

    def _table_place(self, name: str, site: Site | None) -> str | None:
        """The place of a new table, for errors, if it can have that name."""
        arguments.table_name(name, place(self._name, site))
        self._claim(name, "table", site)
        return place(f"{self._name}.{name}", site)

    def _declare(
        self, spec: TableSpec, partitions: object, on_error: object, help: object, where: object
    ) -> Table:
        """Adds a table, with the options that every kind of table has."""
        checked = replace(
            spec,
            partitions=None if partitions is None else arguments.positive(partitions, "partitions", where),
            on_error=cast(OnError, arguments.one_of(on_error, ("reject", "fail"), "on_error", where)),
            help=arguments.help_text(help, where),
        )
        return self._put(checked)

    def _put(self, spec: TableSpec) -> Table:
        self._tables[spec.name.lower()] = spec
        return Table(self, spec.name)

    def _stream(self, node: Node) -> Stream:
        return Stream(self, node)

    def _own(self, other: App, what: str, kind: str, name: str, where: object) -> None:
        """Refuses what belongs to another app."""
        if other is not self:
            problem = f"{what} takes {kind}s of one app, and {name!r} belongs to {other.name!r}"
            raise BadOption(problem, where=where, hint=f"declare the {kind} in {self._name!r} too")

    def _use(self, lookup: Lookup, where: object) -> None:
        """Refuses a lookup if another one of its name is used in the app: both would be called the same."""
        first = self._lookups.setdefault(lookup.name.lower(), lookup)
        if first == lookup:
            return
        raise NameTaken(
            f"lookup {lookup.name!r} can't be used: another one of that name is declared at {first.site}",
            where=where,
            given=f"kf.lookup({lookup.name!r}, ...) at {lookup.site}",
            hint="another name for one of them, or one kf.lookup(...) for both uses",
        )
