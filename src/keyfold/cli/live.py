"""A running app in a terminal: its figures, redrawn in place. Made to fit from 40 columns on."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from keyfold.cli import figures, output

if TYPE_CHECKING:
    from keyfold.engine.handle import Handle

_WIDE: Final = 118
_SPARK: Final = 16
_HISTORY: Final = 60
_SHOWN: Final = (
    "rows",
    "keys",
    "state",
    "batch",
    "took",
    "watermark",
    "behind",
    "late",
    "rejected",
)


class Screen:
    """Shows what `handle.status()` says, twice a second, until it is closed."""

    def __init__(
        self, handle: Handle, console: Console, until: str, watch: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._handle, self._console, self._until, self._watch = handle, console, until, watch
        self._begun = time.monotonic()
        self._rates: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_HISTORY))
        self._left: dict[str, Left] = defaultdict(Left)
        self._live = Live(console=console, transient=True, auto_refresh=False)

    def __enter__(self) -> Callable[[], None]:
        self._live.start()
        return self.refresh

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def refresh(self) -> None:
        """Draws the figures of now."""
        status = self._handle.status()
        for name, table in status["tables"].items():
            self._rates[name].append(table["rows_per_second"] or 0)
        self._live.update(self.drawn(status), refresh=True)

    def drawn(self, status: dict[str, Any]) -> RenderableType:
        """The whole picture."""
        width = self._console.width
        head = Text(status["app"], style="bold", overflow="ellipsis", no_wrap=True)
        head.append(f"  {figures.span(int(time.monotonic() - self._begun))}  {self._until}", style="dim")
        tables = status["tables"]
        body = self._wide(tables) if width >= _WIDE else self._narrow(tables)
        return Group(head, *body, *self._bars(tables, width), *self._rows())

    def _wide(self, tables: dict[str, dict[str, Any]]) -> list[RenderableType]:
        grid = Table(box=None, pad_edge=False, header_style="dim")
        removed = any(table.get("removed") for table in tables.values())
        shown = (*_SHOWN, "removed") if removed else _SHOWN
        for name in ("table", "rows/s", "", *shown):
            grid.add_column(name, justify="left" if name in ("table", "") else "right", no_wrap=True)
        for name, table in tables.items():
            row = figures.status_row(name, table)
            spark = Text(self._spark(name, _SPARK), style="cyan")
            cells = [_cell(column, row.get(column, "0")) for column in shown]
            grid.add_row(Text(name, style="bold"), row["rows/s"], spark, *cells)
        return [grid]

    def _narrow(self, tables: dict[str, dict[str, Any]]) -> list[RenderableType]:
        blocks: list[RenderableType] = []
        for name, table in tables.items():
            row = figures.status_row(name, table)
            line = Text(f"{name} ", style="bold", no_wrap=True, overflow="ellipsis")
            room = max(4, min(_SPARK, self._console.width - len(name) - len(row["rows/s"]) - 9))
            line.append(f"{row['rows/s']} rows/s ", style="not bold")
            line.append(self._spark(name, room), style="not bold cyan")
            pairs = Text("  ", style="dim")
            for label in (*_SHOWN, "removed"):
                if row.get(label, "0") not in (figures.NONE, "0"):
                    pairs.append(f"{label} ").append_text(_cell(label, row[label])).append("  ")
            blocks += [line, pairs]
        return blocks

    def _bars(self, tables: dict[str, dict[str, Any]], width: int) -> list[RenderableType]:
        """A bar for each table that has something left to do."""
        bars: list[RenderableType] = []
        for name, table in tables.items():
            left = self._left[name].estimate(table["done"], time.monotonic())
            if table["done"] is not None and table["done"] < 1:
                grid = Table.grid(padding=(0, 1))
                files = f", {table['files_left']:,} files to come" if table["files_left"] else ""
                said = f"{table['done']:.0%}{left}{files}"
                bar = ProgressBar(total=1, completed=table["done"], width=max(8, min(40, width // 4)))
                grid.add_row(Text(name, no_wrap=True, overflow="ellipsis"), bar, Text(said, overflow="fold"))
                bars.append(grid)
        return bars

    def _rows(self) -> list[RenderableType]:
        """Rows of the tables that are watched, as they are now."""
        shown: list[RenderableType] = []
        for name, options in self._watch.items():
            table = self._handle.table(name)
            rows = table.rows(**options)
            columns = [c.name for c in (*table.schema.keys, *table.schema.columns)]
            grid = Table(box=None, pad_edge=False, title=name, title_justify="left", title_style="bold")
            for number, column in enumerate(columns):
                grid.add_column(Text(column), justify="right" if number else "left", header_style="dim")
            for row in rows:
                grid.add_row(*(Text(output.cell(figures.short(row[column]))) for column in columns))
            shown += [Text(""), grid]
        return shown

    def _spark(self, name: str, width: int) -> str:
        return figures.sparkline(self._rates[name], width, self._console.encoding)


class Left:
    """How long it will take, from how it went since it began."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None

    def estimate(self, done: float | None, now: float) -> str:
        """In words, once there is something to reckon with."""
        if done is None or done >= 1 or self._first is None or done < self._first[1]:
            self._first = None if done is None or done >= 1 else (now, done)
            return ""
        begun, before = self._first
        if done - before < 0.02 or now - begun < 2:
            return ""
        return f", about {figures.span((now - begun) / (done - before) * (1 - done))} left"


def _cell(label: str, text: str) -> Text:
    bad = label in ("late", "rejected") and text != "0"
    return Text(text, style="yellow" if bad else "default")
