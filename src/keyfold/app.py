"""What a user writes: an app, its streams and its tables. Declaring checks arguments and touches nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, TypeAlias, cast

from keyfold.errors import BadOption, NameTaken
from keyfold.plan import checks, describe, durations, joins, windows
from keyfold.plan.closing import check_columns, stay
from keyfold.plan.nodes import (
    AppSpec,
    AsOf,
    Changes,
    Connector,
    Emit,
    Enrich,
    Expr,
    FoldSpec,
    JoinHow,
    Lookup,
    Named,
    Node,
    OnError,
    ProcessMode,
    ProcessSpec,
    Select,
    Site,
    Source,
    TableSpec,
    TopSpec,
    Transform,
    Union,
    Where,
    WindowSpec,
    name_of,
)
from keyfold.plan.options import key_column, table_columns
from keyfold.plan.site import StreamPlace, here, place
from keyfold.plan.streams import FUTURE, checked_sink, event_time, stream_schema
from keyfold.plan.words import window_words

Within: TypeAlias = str | timedelta | int | tuple[str | timedelta | int, str | timedelta | int]


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
        self._name = checks.identifier(name, "an app", site)
        where = place(name, site)
        self._every_ms = None if every is None else durations.millis(every, "every", where=where)
        self._snapshot_every = (
            None if snapshot_every is None else checks.positive(snapshot_every, "snapshot_every", where)
        )
        self._help = checks.help_text(help, where)
        self._streams: dict[str, Source] = {}
        self._tables: dict[str, TableSpec] = {}

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
        checks.identifier(name, "a stream", place(self._name, site))
        where = place(f"{self._name}.{name}", site)
        self._claim(name, "stream", site)
        advice = 'kf.files("data"), kf.rate(), kf.rows([...]) or kf.spark("format")'
        connector = checks.instance(
            source, Connector, "the source of a stream must be a source", advice, where
        )
        columns, checked = stream_schema(connector, schema, where)
        told = checks.help_text(help, where)
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
        return describe.describe(self.spec(), format)

    def start(self, spark: Any = None, home: Any = None, **settings: Any) -> Any:
        """Starts the app's queries, on a session of your own or one made for it, and returns a handle."""
        from keyfold.engine.run import start

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

    def _add_table(self, spec: TableSpec) -> Table:
        self._tables[spec.name.lower()] = spec
        return Table(self, spec.name)


@dataclass(frozen=True)
class Stream:
    """Rows, as a source gives them or as derived from other streams."""

    app: App
    node: Node

    @property
    def name(self) -> str:
        """The stream's name; a derived stream has the names of its sources."""
        return name_of(self.node)

    def where(self, condition: Expr) -> Stream:
        """The rows for which the condition is true."""
        site = here()
        checked = checks.expression(condition, "the condition of where", self._place(site))
        return Stream(self.app, Where(self.node, checked, site))

    def select(self, /, *items: Expr, **new: Expr) -> Stream:
        """Chosen columns, spelled as in SQL, and new ones by name: `select("*", cents="amount * 100")`."""
        site = here()
        where = self._place(site)
        if not items and not new:
            raise BadOption(
                "select needs at least one column", where=where, hint='select("*", new="expression")'
            )
        plain = [(None, checks.expression(item, "an item of select", where)) for item in items]
        return Stream(self.app, Select(self.node, (*plain, *checks.named(new, "a column", where)), site))

    def transform(self, fn: Callable[..., Any]) -> Stream:
        """Whatever the function makes of the stream's DataFrame; it is called when the app starts."""
        site = here()
        checked = checks.function(fn, 1, "the function of transform", self._place(site))
        return Stream(self.app, Transform(self.node, checked, site))

    def union(self, *others: Stream) -> Stream:
        """The rows of this and the other streams, by column name."""
        site = here()
        where = self._place(site)
        if not others:
            raise BadOption("union needs at least one other stream", where=where)
        for other in others:
            checks.instance(other, Stream, "union takes streams", "a stream of the same app", where)
            if other.app is not self.app:
                problem = f"union takes streams of one app, and {other.name!r} belongs to {other.app.name!r}"
                raise BadOption(problem, where=where, hint=f"declare the stream in {self.app.name!r} too")
        return Stream(self.app, Union((self.node, *(other.node for other in others)), site))

    def join(
        self,
        other: Stream,
        *,
        on: str | Sequence[str],
        within: Within | None = None,
        how: JoinHow = "inner",
    ) -> Stream:
        """Rows of this stream and another that match and are near in time.

        `on` are columns that both have, or a condition: `"orders.id = payments.order_id"`. `within` is how
        far apart in event time, `(before, after)` how much older and newer the other's row may be.
        """
        site = here()
        node = joins.join(self.node, other.node, on, within, how, self._place(site))
        return Stream(self.app, replace(node, site=site))

    def enrich(
        self,
        table: Table | Lookup,
        *,
        on: str | Sequence[str] | None = None,
        how: Literal["left", "inner"] = "left",
        wait: str | timedelta | int | None = None,
        as_of: AsOf = "arrival",
        on_update: bool = False,
        keep: str | timedelta | None = None,
    ) -> Stream:
        """Rows with the row that a table, or a `kf.lookup`, has for their key.

        `on` are columns of this stream, in the order of the table's key. A row meets the table's row as of
        its arrival, or as of its event time (`as_of="event"`); it waits for it as long as `wait` says. With
        `on_update` rows are kept, for `keep` or for good, and follow changes of the table.
        """
        site = here()
        where = self._place(site)
        if isinstance(table, Lookup):
            return Stream(self.app, replace(joins.look_up(self.node, table, on, how, where), site=site))
        node = joins.enrich(self.node, table.spec, on, how, wait, as_of, on_update, keep, where)
        return Stream(self.app, replace(node, site=site))

    def distinct(self, /, *columns: str, within: str | timedelta, removed: bool = False) -> Stream:
        """Rows of which none with equal columns was kept less than `within` before or after it.

        What is removed is counted; with `removed` it is kept aside too.
        """
        site = here()
        node = joins.distinct(self.node, columns, within, removed, self._place(site))
        return Stream(self.app, replace(node, site=site))

    def by(self, /, *columns: str, **named: Expr) -> Keyed:
        """The key: columns, or expressions by name, as in `by("region", day="date(at)")`."""
        site = here()
        where = self._place(site)
        if not columns and not named:
            raise BadOption(
                "by needs at least one key", where=where, hint="for one row over all: by(all=\"'all'\")"
            )
        plain = [(key_column(column, where), column) for column in columns]
        keys: Named = (*plain, *checks.named(named, "a key", where))
        checks.unique((name for name, _ in keys), "key", where)
        return Keyed(self.app, self.node, keys)

    def __repr__(self) -> str:
        return f"<stream {self.name} of {self.app.name}>"

    def _place(self, site: Site | None) -> StreamPlace:
        return StreamPlace(self.app.name, self.node, site)


@dataclass(frozen=True)
class Keyed:
    """A stream with a key, and perhaps windows, of which tables are made.

    >>> ticks = kf.App("clock").stream("ticks", kf.rate(), time="timestamp").by("value")
    >>> ticks.sliding("1 hour", every="1 minute")
    <stream ticks of clock by value, sliding 1 hour every 1 minute>
    """

    app: App
    node: Node
    keys: Named
    window: WindowSpec | None = None
    ranked: TopSpec | None = None

    def top(self, n: int, *, by: str) -> Keyed:
        """The first n rows of each key, as after ORDER BY in SQL: a table has a row per key and rank."""
        site = here()
        return replace(self, ranked=TopSpec(n, by, site))

    def latest(self) -> Keyed:
        """The newest row of each key, by event time and then by arrival: a table has a row per key."""
        return replace(self, ranked=TopSpec(site=here()))

    def process(
        self,
        name: str,
        processor: Callable[[], Any],
        *,
        output: str,
        mode: ProcessMode = "update",
        initial: Callable[..., Any] | None = None,
        partitions: int | None = None,
        on_error: OnError = "reject",
        help: str = "",
    ) -> Table:
        """Declares a table that a PySpark `StatefulProcessor` fills; `output` is its schema in DDL."""
        site = here()
        self.app._claim(name, "table", site)
        spec = ProcessSpec(processor, output, mode, initial, site)
        return self.app._add_table(
            TableSpec(
                self.app.name,
                name,
                self.node,
                self.keys,
                (),
                None,
                partitions,
                on_error,
                (),
                help,
                process=spec,
                site=site,
            )
        )

    def tumbling(
        self, size: str | timedelta, *, offset: str | timedelta | int = 0, zone: str | None = None
    ) -> Keyed:
        """Windows side by side: each row is in one. A table has a row per key and window.

        Windows are aligned to 1970-01-01 in UTC, or begin at midnight in a `zone` such as "Europe/Berlin",
        where their size is whole days; `offset` moves them, "-1 hour" back.
        """
        return self._windowed(windows.tumbling, size, offset, zone)

    def sliding(
        self,
        size: str | timedelta,
        *,
        every: str | timedelta,
        offset: str | timedelta | int = 0,
        zone: str | None = None,
    ) -> Keyed:
        """Windows of a size that begin `every` so often: each row is in all that hold its time.

        `offset` and `zone` are as in `tumbling`; `every` is at most the size, which need not be a multiple.
        """
        return self._windowed(windows.sliding, size, every, offset, zone)

    def session(self, gap: Expr | timedelta) -> Keyed:
        """Windows from a key's first row to its last plus the gap: rows at most that far apart are in one.

        The gap is a duration, or an expression that gives each row its own.
        """
        return self._windowed(windows.session, gap)

    def rolling(self, duration: str | timedelta, *, every: str | timedelta | None = None) -> Keyed:
        """The rows of the last duration of event time up to each key's newest row: a table has a row per key.

        It is exact, and keeps those rows; with `every` it keeps panes of that width instead.
        """
        return self._windowed(windows.rolling, duration, every)

    def last(self, n: int) -> Keyed:
        """The last n rows of each key, by event time if the stream has one, else by arrival."""
        return self._windowed(windows.last, n)

    def table(
        self,
        name: str,
        columns: Mapping[str, Expr | FoldSpec] | None = None,
        /,
        *,
        ttl: str | timedelta | None = None,
        emit: Emit = "changes",
        keep: str | timedelta | None = None,
        idle: str | timedelta | None = None,
        partitions: int | None = None,
        on_error: OnError = "reject",
        help: str = "",
        **named: Expr | FoldSpec,
    ) -> Table:
        """Declares a table: one row per key, or per key and window, its columns aggregates or folds.

        Columns are keyword arguments or a dict; only in the dict may a column have an option's name. `ttl`
        forgets a key not seen for so long, `partitions` is fixed at the first start, `on_error="fail"` stops
        at a bad row. For tumbling, sliding and session windows: `emit="final"` gives each once, when it has
        closed; `keep` is how long a closed one takes replays of late rows before it is deleted; after `idle`
        without rows, time follows the clock, so that windows close.
        """
        site = here()
        checks.table_name(name, place(self.app.name, site))
        where = place(f"{self.app.name}.{name}", site)
        self.app._claim(name, "table", site)
        # First, since a column called ttl is the likeliest reason for a table to have no columns.
        life = stay(self.window, ttl, emit, keep, idle, where)
        if self.ranked is not None and columns is None and not named:
            checked: tuple[tuple[str, Expr | FoldSpec], ...] = ()
        else:
            checked = table_columns(columns, named, self.keys, where)
        check_columns(self.window, self.keys, checked, where)
        return self.app._add_table(
            TableSpec(
                app=self.app.name,
                name=name,
                input=self.node,
                keys=self.keys,
                columns=checked,
                ttl_ms=life.ttl_ms,
                partitions=None if partitions is None else checks.positive(partitions, "partitions", where),
                on_error=cast(OnError, checks.one_of(on_error, ("reject", "fail"), "on_error", where)),
                help=checks.help_text(help, where),
                window=self.window,
                emit=life.emit,
                keep_ms=life.keep_ms,
                idle_ms=life.idle_ms,
                top=self.ranked,
                site=site,
            )
        )

    def __repr__(self) -> str:
        keys = ", ".join(name for name, _ in self.keys)
        shown = "" if self.window is None else f", {window_words(self.window)}"
        return f"<stream {name_of(self.node)} of {self.app.name} by {keys}{shown}>"

    def _windowed(self, declare: Callable[..., WindowSpec], *given: object) -> Keyed:
        site = here()
        where = StreamPlace(self.app.name, self.node, site)
        windows.refuse_second(self.window, where)
        made = declare(*given, where=where)
        windows.require_time(made, self.node, where)
        return replace(self, window=replace(made, site=site))


@dataclass(frozen=True)
class Table:
    """A declared table."""

    app: App
    name: str

    @property
    def spec(self) -> TableSpec:
        """The table as plain data, with the sinks added so far."""
        return self.app._tables[self.name.lower()]

    def changes(self, *, previous: bool = False) -> Stream:
        """The table's rows as a stream: what is folded of them takes back rows that change or go.

        With `previous`, the changes as they happen, each once, with `_op` and the row as it was before.
        """
        return Stream(self.app, Changes(self.name, previous, here()))

    def join_table(
        self,
        right: Table,
        name: str | None = None,
        *,
        on: str | Sequence[str] | None = None,
        how: Literal["inner", "left", "right", "full"] = "inner",
        help: str = "",
    ) -> Table:
        """Declares a table that follows this and another one: a row per row of this one, with the other's.

        `on` are columns of this table, in the order of the other's key; by default its own key. Without a
        name it is called after both.
        """
        site = here()
        mine, other = self.spec, right.spec
        columns = [n for n, _ in mine.keys] if on is None else on
        where = place(f"{self.app.name}.{name}", site)
        node = replace(
            Enrich(Changes(self.name, False, site), other.name, joins.columns_of(columns, where)),
            how=how,
            on_update=True,
            site=site,
        )
        wanted = name or f"{self.name}_{right.name}"
        self.app._claim(wanted, "table", site)
        keys: Named = tuple((n, n) for n, _ in mine.keys)
        return self.app._add_table(
            TableSpec(self.app.name, wanted, node, keys, (), top=TopSpec(site=site), help=help, site=site)
        )

    def to(self, sink: Connector) -> Table:
        """Sends the table's changes to a sink as well; returns the table."""
        spec = self.spec
        checked = checked_sink(sink, spec, place(f"{self.app.name}.{self.name}", here()))
        self.app._add_table(replace(spec, sinks=(*spec.sinks, checked)))
        return self

    def __repr__(self) -> str:
        return f"<table {self.app.name}.{self.name}>"
