"""The live screen of a running app: its status, redrawn in place; for terminals of 40 columns or more."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from keyfold.cli import formatting, output
from keyfold.cli.terminal import column_widths
from keyfold.cli.terminal.column_widths import ABSENT, GAP
from keyfold.read.metrics import RunStatus, StreamStatus, TableStatus

if TYPE_CHECKING:
    from keyfold.engine.handle import Handle

_SPARK: Final = 16
_LEAST_SPARK: Final = 4
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
# Shown only if a table has them.
_SOMETIMES: Final = (*formatting.SOMETIMES, "done")


class Screen:
    """Shows `handle.status()` twice a second until it is closed."""

    def __init__(
        self, handle: Handle, console: Console, until: str, watch: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._handle, self._console, self._until, self._watch = handle, console, until, watch
        self._begun = time.monotonic()
        self._rates: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_HISTORY))
        self._remaining = RemainingTime()
        self._live = Live(console=console, transient=True, auto_refresh=False)

    def __enter__(self) -> Callable[[], None]:
        self._live.start()
        return self.refresh

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def refresh(self) -> None:
        """Draws the current status."""
        status = RunStatus.read(self._handle.status())
        for name, table in status.tables.items():
            self._rates[name].append(table.rows_per_second or 0)
        self._live.update(self.drawn(status), refresh=True)

    def drawn(self, status: RunStatus) -> RenderableType:
        """The whole screen."""
        width = self._console.width
        head = Text(status.app, style="bold", overflow="ellipsis", no_wrap=True)
        head.append(f"  {formatting.span(int(time.monotonic() - self._begun))}  {self._until}", style="dim")
        tables = status.tables
        rows = {name: _row(name, table) for name, table in tables.items()}
        wide = self._wide(rows, width)
        body = [wide] if wide is not None else self._narrow(rows, width)
        streams = [_stream_line(name, stream) for name, stream in status.streams.items()]
        return Group(head, *body, *streams, *self._bar(tables.values(), width), *self._rows())

    def _wide(self, rows: Mapping[str, Mapping[str, str]], width: int) -> RenderableType | None:
        """A line for each table, if all numbers fit: sparklines take the remaining width, and the watermark
        is left out first, since `behind` says nearly the same."""
        used = [c for c in (*_SHOWN, *_SOMETIMES) if c in _SHOWN or any(row.get(c) for row in rows.values())]
        lines = rows.values()
        columns = column_widths.fitting(("table", "rows/s", *used), lines, width, ("watermark",))
        room = width - column_widths.line_width(columns, lines)
        return self._grid(rows, columns[1:], min(_SPARK, room - GAP)) if room >= 0 else None

    def _grid(self, rows: Mapping[str, Mapping[str, str]], columns: tuple[str, ...], room: int) -> Table:
        grid = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("table", columns[0], *([""] if room >= _LEAST_SPARK else []), *columns[1:]):
            grid.add_column(name, justify="left" if name in ("table", "") else "right", no_wrap=True)
        for name, row in rows.items():
            spark = [Text(self._spark(name, room), style="cyan")] if room >= _LEAST_SPARK else []
            first, *cells = (_cell(column, row.get(column, ABSENT)) for column in columns)
            grid.add_row(Text(name, style="bold"), first, *spark, *cells)
        return grid

    def _narrow(self, rows: Mapping[str, Mapping[str, str]], width: int) -> list[RenderableType]:
        """Name and status of each table, one after the other, over as many lines as they take."""
        lines: list[RenderableType] = []
        for name, row in rows.items():
            line = Text(name, style="bold", overflow="fold").append(f"  {row['rows/s']} rows/s", "not bold")
            room = min(_SPARK, max(_LEAST_SPARK, width - line.cell_len - GAP))
            parts = [Text(self._spark(name, room), style="not bold cyan")]
            for label in (*_SHOWN, *_SOMETIMES):
                if row.get(label, "0") not in (formatting.NONE, "0"):
                    parts.append(Text(f"{label} ", "not bold dim").append_text(_cell(label, row[label])))
            for part in parts:
                if line.cell_len + GAP + part.cell_len > width:
                    lines.append(line)
                    line = Text()
                line.append(" " * GAP).append_text(part)
            lines.append(line)
        return lines

    def _bar(self, tables: Iterable[TableStatus], width: int) -> list[RenderableType]:
        """One progress bar for all tables, as long as input is left."""
        known = [(table.done, table.files_left or 0) for table in tables if table.done is not None]
        done = sum(share for share, _ in known) / len(known) if known else None
        left = self._remaining.estimate(done, time.monotonic())
        if done is None or done >= 1:
            return []
        grid = Table.grid(padding=(0, 1))
        # Tables of one stream read the same files.
        most = max(left for _, left in known)
        files = f", {most:,} files left" if most else ""
        bar = ProgressBar(total=1, completed=done, width=max(8, min(40, width // 4)))
        grid.add_row(bar, Text(f"{done:.0%}{left}{files}", overflow="fold"))
        return [grid]

    def _rows(self) -> list[RenderableType]:
        """The current rows of the watched tables."""
        shown: list[RenderableType] = []
        for name, options in self._watch.items():
            table = self._handle.table(name)
            rows = table.rows(**options)
            columns = [c.name for c in (*table.schema.keys, *table.schema.columns)]
            grid = Table(box=None, pad_edge=False, title=name, title_justify="left", title_style="bold")
            for number, column in enumerate(columns):
                grid.add_column(Text(column), justify="right" if number else "left", header_style="dim")
            for row in rows:
                grid.add_row(*(Text(output.cell(formatting.short(row[column]))) for column in columns))
            shown += [Text(""), grid]
        return shown

    def _spark(self, name: str, width: int) -> str:
        return formatting.sparkline(self._rates[name], width, self._console.encoding)


class RemainingTime:
    """Estimates the remaining time from the progress so far."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None

    def estimate(self, done: float | None, now: float) -> str:
        """The estimate as text, once there is enough progress."""
        if done is None or done >= 1 or self._first is None or done < self._first[1]:
            self._first = None if done is None or done >= 1 else (now, done)
            return ""
        begun, before = self._first
        if done - before < 0.02 or now - begun < 2:
            return ""
        return f", about {formatting.span((now - begun) / (done - before) * (1 - done))} left"


def _row(name: str, table: TableStatus) -> dict[str, str]:
    """The status of a table, and its progress while input is left."""
    done = table.done
    return formatting.status_row(name, table) | ({} if done is None or done >= 1 else {"done": f"{done:.0%}"})


def _stream_line(name: str, stream: StreamStatus) -> Text:
    """A stream that is parsed once for its tables: what it rejects is in none of their lines."""
    line = Text(f"stream {name}", style="bold", overflow="fold")
    line.append(f"{' ' * GAP}{formatting.count(stream.rows_per_second)} rows/s", "not bold")
    for label, rows in (("recorded", stream.recorded), ("rejected", stream.rejected)):
        if rows:
            line.append(" " * GAP).append(f"{label} ", "not bold dim")
            line.append_text(_cell(label, formatting.count(rows)))
    return line


def _cell(label: str, text: str) -> Text:
    bad = label in ("late", "rejected") and text != "0"
    return Text(text, style="yellow" if bad else "default")
