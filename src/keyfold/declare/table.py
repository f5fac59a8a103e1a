"""`Table`: a declared table, its changelog, joins with other tables and sinks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from keyfold.plan.call_site import call_site, location
from keyfold.plan.nodes import Changes, Connector, OnError, TableSpec
from keyfold.plan.validate import arguments, enrich
from keyfold.plan.validate.latency import check_sink
from keyfold.plan.validate.sinks import named_sink

if TYPE_CHECKING:
    from keyfold.declare.app import App
    from keyfold.declare.stream import Stream


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
        """The table's changelog as a retracting stream: a change of a row retracts its earlier version.

        >>> app = kf.App("shop")
        >>> bids = app.stream("bids", kf.rows([]), "auction int, category int, price double")
        >>> highest = bids.by("auction", "category").table("highest", price="max(price)")
        >>> highest.changes().by("category").table("mean_highest", mean="avg(price)")
        <table shop.mean_highest>

        With `previous`, the changes as events that never retract, each with `_op` and the row before the
        change.
        """
        site = call_site()
        where = location(f"{self.app.name}.{self.name}", site)
        return self.app._stream(Changes(self.name, arguments.flag(previous, "previous", where), site))

    def join_table(
        self,
        right: Table,
        name: str | None = None,
        *,
        on: str | Sequence[str] | None = None,
        how: Literal["inner", "left", "right", "full"] = "inner",
        partitions: int | None = None,
        on_error: OnError = "reject",
        private: Sequence[str] = (),
        help: str = "",
    ) -> Table:
        """Declares the join of this table with another, which is updated when either changes.

        `on` are columns of this table, in the order of the other's key; by default this table's key. The
        default name consists of both names.
        """
        site = call_site()
        mine = location(f"{self.app.name}.{self.name}", site)
        advice = f"a table of app {self.app.name!r}"
        arguments.instance(right, Table, "join_table takes a table", advice, mine)
        self.app._own(right.app, "join_table", "table", right.name, mine)
        wanted = f"{self.name}_{right.name}" if name is None else name
        where = self.app._table_location(wanted, site)
        spec = enrich.join_table(wanted, self.spec, right.spec, on, how, where, site)
        return self.app._declare(spec, partitions, on_error, private, help, where)

    def to(self, sink: Connector, name: str | None = None) -> Table:
        """Also writes the table's changes to a sink; returns the table.

        How far it has written them is stored under its name, by default its kind and its topic or path, such
        as `kafka-totals`. A sink whose name is new begins with what changes from then on.

        >>> app = kf.App("shop")
        >>> orders = app.stream("orders", kf.rows([]), "region string")
        >>> totals = orders.by("region").table("totals", n="count(*)")
        >>> totals.to(kf.files("out")).to(kf.files("/mnt/archive/totals"), name="archive")
        <table shop.totals>
        """
        spec = self.spec
        where = location(f"{self.app.name}.{self.name}", call_site())
        named = named_sink(sink, name, spec, where)
        check_sink(named[1], spec, where)
        self.app._put(replace(spec, sinks=(*spec.sinks, named)))
        return self

    def __repr__(self) -> str:
        return f"<table {self.app.name}.{self.name}>"
