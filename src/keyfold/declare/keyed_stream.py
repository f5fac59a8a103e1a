"""`KeyedStream`: a stream with a key; declares windows, top-N, tables, processors and patterns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from keyfold.declare.patterns import Pattern
from keyfold.plan.call_site import StreamLocation, call_site
from keyfold.plan.describe.phrases import top_words, window_words
from keyfold.plan.initial import Initial, InitialRows, InitialState
from keyfold.plan.nodes import (
    AggregateSpec,
    Body,
    Connector,
    Emit,
    Expr,
    FoldSpec,
    Named,
    Node,
    OnError,
    ProcessMode,
    Site,
    TableSpec,
    TopSpec,
    WindowSpec,
)
from keyfold.plan.pattern.syntax import Order
from keyfold.plan.tree import name_of
from keyfold.plan.validate import (
    arguments,
    event_time,
    known_columns,
    pattern,
    retraction,
    top_n,
    window,
)
from keyfold.plan.validate import (
    processor as processor_checks,
)
from keyfold.plan.validate.emit import check_columns, emit_options
from keyfold.plan.validate.history import history_options
from keyfold.plan.validate.initial import check_initial, initial_option
from keyfold.plan.validate.latency import Latency, check_table, latency_option
from keyfold.plan.validate.table_options import length, old_name, table_columns

if TYPE_CHECKING:
    from keyfold.declare.app import App
    from keyfold.declare.table import Table


@dataclass(frozen=True)
class KeyedStream:
    """A stream with a key, and optionally windows or a top-N, from which tables are declared.

    >>> ticks = kf.App("clock").stream("ticks", kf.rate(), time="timestamp").by("value")
    >>> ticks.sliding("1 hour", every="1 minute")
    <stream ticks of clock by value, sliding 1 hour every 1 minute>
    """

    app: App
    node: Node
    keys: Named
    window: WindowSpec | None = None
    ranked: TopSpec | None = None

    def tumbling(
        self, size: str | timedelta, *, offset: str | timedelta | int = 0, zone: str | None = None
    ) -> KeyedStream:
        """Tumbling windows: each row is in exactly one. The table has a row per key and window.

        Windows are aligned to 1970-01-01 in UTC, or to midnight in a `zone` such as "Europe/Berlin", where
        the size must be whole days; `offset` shifts them, "-1 hour" backwards.
        """
        return self._with_window(window.tumbling, size, offset, zone)

    def sliding(
        self,
        size: str | timedelta,
        *,
        every: str | timedelta | None = None,
        offset: str | timedelta | int = 0,
        zone: str | None = None,
    ) -> KeyedStream:
        """Sliding windows: one starts every `every`, and each row is in all windows that contain its time.

        `offset` and `zone` are as in `tumbling`; `every` is at most the size, which need not be a multiple.
        """
        return self._with_window(window.sliding, size, every, offset, zone)

    def session(self, gap: Expr | timedelta) -> KeyedStream:
        """Session windows: rows of a key that are at most `gap` apart are in one window.

        A session ends `gap` after its last row. The gap is a duration, or an expression with a gap per row.
        """
        return self._with_window(window.session, gap)

    def rolling(self, duration: str | timedelta, *, every: str | timedelta | None = None) -> KeyedStream:
        """A rolling window: the rows of the trailing `duration` up to the latest row, one result per key.

        It is exact and keeps the rows; with `every` it keeps panes of that width instead.
        """
        return self._with_window(window.rolling, duration, every)

    def last(self, n: int) -> KeyedStream:
        """A last-N window: the last n rows of each key by event time, or by arrival without event time."""
        return self._with_window(window.last, n)

    def top(self, n: int, *, by: str | None = None) -> KeyedStream:
        """The top n rows of each key, ordered as after ORDER BY in SQL: a row per key and rank.

        >>> bids = kf.App("shop").stream("bids", kf.rows([]), "item int, price double")
        >>> bids.by("item").top(3, by="price desc").table("highest_bids")
        <table shop.highest_bids>

        Rows have all columns of the stream, unless the table names expressions; `rank` counts from 1. Ties
        are ordered by event time, then by arrival.
        """
        return self._with_top(top_n.top, n, by)

    def latest(self) -> KeyedStream:
        """The latest row of each key, by event time and then by arrival; the table has a row per key.

        Rows have all columns of the stream, unless the table names expressions.
        """
        return self._with_top(top_n.latest)

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
        history: str | timedelta | Connector | None = None,
        initial: Connector | Initial | None = None,
        was: str | None = None,
        latency: Latency | None = None,
        partitions: int | None = None,
        on_error: OnError = "reject",
        private: Sequence[str] = (),
        help: str = "",
        **named: Expr | FoldSpec,
    ) -> Table:
        """Declares a table: one row per key, or per key and window, its columns aggregates or folds.

        Columns are keyword arguments or a dict; only the dict may have columns with the name of an option.
        `ttl` expires a key without rows for that long, `partitions` is fixed at the first start, and with
        `on_error="fail"` a row that would be rejected stops the query. For tumbling, sliding and session
        windows: `emit="final"` emits each window once, when it closes; `keep` is how long a closed window
        accepts replays of late rows before it is deleted; after `idle` without rows the watermark follows the
        clock, so that windows close. Joins take `idle` too. `history` is how long the table's changes stay in
        its log: a lost view comes back from them, with closed windows. Or it is a topic, `kf.kafka(...)`,
        which keeps the latest change of each key. `was` is the table's old name, from which `keyfold migrate`
        takes its state. With `latency="realtime"`, on a stream of Kafka, each change is sent to the table's
        topic as soon as its row is read. `initial` is what the table begins with, before the rows of its
        stream: `kf.files(...)` with the stream's columns, up to a time with `kf.initial`; or a
        `kf.savepoint(...)`. Readers with a token do not see the columns in `private` over HTTP.
        """
        site = call_site()
        where = self.app._table_location(name, site)
        # First, since a column named like an option is the likeliest reason for a table without columns.
        options = emit_options(self.window, self.node, ttl, emit, keep, idle, where)
        checked = table_columns(columns, named, self.keys, where, needed=self.ranked is None)
        body: Body
        if self.ranked is None:
            check_columns(self.window, self.keys, checked, where)
            body = AggregateSpec(checked, self.window, options.emit, options.keep_ms)
        else:
            whole = known_columns.of_stream(self.node)
            body = top_n.with_columns(self.ranked, self.keys, checked, whole, where)
        retraction.check_folds(self.node, checked, where)
        spec = TableSpec(
            app=self.app.name,
            name=name,
            input=self.node,
            keys=self.keys,
            body=body,
            ttl_ms=options.ttl_ms,
            idle_ms=options.idle_ms,
            **history_options(history, where),
            was=old_name(was, name, where),
            latency=latency_option(latency, where),
            initial=initial_option(initial, where),
            site=site,
        )
        check_table(spec, where)
        check_initial(spec, where)
        return self.app._declare(spec, partitions, on_error, private, help, where)

    def process(
        self,
        name: str,
        processor: Callable[[], Any],
        *,
        output: str | None = None,
        mode: ProcessMode = "update",
        initial: Callable[..., Any] | Connector | Initial | None = None,
        history: str | timedelta | Connector | None = None,
        was: str | None = None,
        partitions: int | None = None,
        on_error: OnError = "reject",
        private: Sequence[str] = (),
        help: str = "",
    ) -> Table:
        """Declares a table that a PySpark `StatefulProcessor` fills; `output` is its schema in DDL.

        `processor` is the class, or a function that returns an instance; `mode` is Spark's output mode;
        `initial` is a function that returns the initial rows of Spark's processor; or, as of `table`, rows or
        state that the table begins with. `output` must contain the key columns. `history` is how long the
        table's changes stay in its log, and `was` is its old name, as in `table`, and so is `private`.
        """
        site = call_site()
        where = self.app._table_location(name, site)
        top_n.refuse_after_window_or_top(self.window, self.ranked, "process", where)
        retraction.refuse_process(self.node, where)
        own = not isinstance(initial, Connector | InitialRows | InitialState)
        rows = initial if own else None
        made = processor_checks.process(processor, output, mode, rows, self.keys, where)
        spec = TableSpec(
            self.app.name,
            name,
            self.node,
            self.keys,
            replace(made, site=site),
            **history_options(history, where),
            was=old_name(was, name, where),
            initial=None if own else initial_option(initial, where),
            site=site,
        )
        check_initial(spec, where)
        return self.app._declare(spec, partitions, on_error, private, help, where)

    def pattern(
        self,
        name: str,
        steps: Pattern,
        *,
        within: str | timedelta | None = None,
        skip: str = "past_last",
        order: Order = "event",
        returns: Mapping[str, Expr] | None = None,
        timeouts: bool = False,
        limit: int = 10_000,
        ttl: str | timedelta | None = None,
        idle: str | timedelta | None = None,
        history: str | timedelta | Connector | None = None,
        was: str | None = None,
        initial: Connector | Initial | None = None,
        partitions: int | None = None,
        on_error: OnError = "reject",
        private: Sequence[str] = (),
        help: str = "",
    ) -> Table:
        """Declares a table of matches: a row for each sequence of a key's rows that matches the steps.

        >>> schema = "card int, amount double, at timestamp"
        >>> cards = kf.App("bank").stream("cards", kf.rows([]), schema, time="at")
        >>> probes, strike = kf.step("probe", "amount < 1", times=3), kf.step("strike", "amount > 500")
        >>> returns = {"lost": "strike[0].amount"}
        >>> cards.by("card").pattern("card_testing", probes >> strike, within="10 minutes", returns=returns)
        <table bank.card_testing>

        A match has `match_id`, `started`, `ended` and the columns of `returns`, which are expressions on the
        steps' rows. Its last row is less than `within` after its first. `skip` says which other matches a
        match excludes: those that begin before its end ("past_last"), with the same row ("next"), before a
        step's first or last row ("to_first(step)", "to_last(step)"), or none ("none"). Rows are buffered
        until the watermark has passed them, unless `order="arrival"`. With `timeouts` the table also has
        partial matches that have timed out, marked `timed_out`. A key has at most `limit` partial matches;
        matches expire after `ttl`. `history`, `initial`, `was` and `private` are those of
        `table`.
        """
        site = call_site()
        where = self.app._table_location(name, site)
        top_n.refuse_after_window_or_top(self.window, self.ranked, "pattern", where)
        retraction.refuse_pattern(self.node, where)
        if order == "event":
            event_time.refuse_delayed_rows(self.node, "pattern", where)
        arguments.instance(
            steps, Pattern, "pattern takes steps", 'kf.step("a", ...) >> kf.step("b", ...)', where
        )
        made = pattern.pattern(
            steps.sequence, within, skip, order, returns, timeouts, limit, self.keys, self.node, where
        )
        spec = TableSpec(
            self.app.name,
            name,
            self.node,
            self.keys,
            replace(made, site=site),
            ttl_ms=length(ttl, "ttl", where),
            idle_ms=length(idle, "idle", where),
            **history_options(history, where),
            was=old_name(was, name, where),
            initial=initial_option(initial, where),
            site=site,
        )
        check_initial(spec, where)
        return self.app._declare(spec, partitions, on_error, private, help, where)

    def __repr__(self) -> str:
        keys = ", ".join(name for name, _ in self.keys)
        window = "" if self.window is None else f", {window_words(self.window)}"
        rank = "" if self.ranked is None else f", {top_words(self.ranked)}"
        return f"<stream {name_of(self.node)} of {self.app.name} by {keys}{window}{rank}>"

    def _with_window(self, declare: Callable[..., WindowSpec], *given: object) -> KeyedStream:
        site = call_site()
        where = self._location(site)
        made = declare(*given, where=where)
        top_n.refuse_after_window_or_top(self.window, self.ranked, made.kind, where)
        retraction.refuse_windows(made, self.node, where)
        window.require_time(made, self.node, where)
        return replace(self, window=replace(made, site=site))

    def _with_top(self, declare: Callable[..., TopSpec], *given: object) -> KeyedStream:
        site = call_site()
        where = self._location(site)
        top_n.refuse_after_window_or_top(self.window, self.ranked, declare.__name__, where)
        made = declare(*given, where=where)
        return replace(self, ranked=replace(made, site=site))

    def _location(self, site: Site | None) -> StreamLocation:
        return StreamLocation(self.app.name, self.node, site)
