"""What a notebook shows of a table: `_repr_html_`, `__repr__` and `plot`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold.errors import QueryError
from keyfold.views import html
from keyfold.views.contract import Column, ViewSchema, ViewStore
from keyfold.views.none import NoViews
from keyfold.views.reader import TableReader
from keyfold.views.stores import views_in
from keyfold.views.types.parse import parse

AT = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
TOTALS = ViewSchema(
    "totals",
    (Column("region", parse("string")),),
    (
        Column("n", parse("long")),
        Column("x", parse("double")),
        Column("price", parse("decimal(10,2)")),
        Column("name", parse("string")),
    ),
)


class Page(HTMLParser):
    """The cells of a page with their styles, its tags, and all its text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.cells: list[tuple[str, str]] = []
        self.text = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.cells.append(("", dict(attributes)["style"] or ""))

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.tags and self.tags[-1] in ("td", "th"):
            self.cells[-1] = (self.cells[-1][0] + data, self.cells[-1][1])

    def style(self, text: str) -> str:
        return next(style for found, style in self.cells if found == text)


def fill(store: ViewStore, rows: list[dict[str, Any]], batch: int = 4, schema: ViewSchema = TOTALS) -> None:
    store.create(schema)
    changes = pa.RecordBatch.from_pylist([{"_op": "upsert", **row} for row in rows], schema=schema.arrow)
    with store.batch(schema.table, batch, AT) as writer:
        writer.apply(changes)


def row(region: str, n: int | None = 1, **others: Any) -> dict[str, Any]:
    return {"region": region, "n": n, "x": 1.5, "price": Decimal("2.50"), "name": "a", **others}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ViewStore]:
    store = views_in(tmp_path / "views.db").open(read_only=False)
    yield store
    store.close()


def page(store: ViewStore) -> Page:
    return Page(TableReader(store, "totals")._repr_html_())


def test_a_notebook_shows_the_rows_with_name_batch_and_time(store: ViewStore) -> None:
    fill(store, [row("us", x=0.1 + 0.2), row("eu")])
    shown = page(store)
    assert shown.text.startswith("totals batch 4, 2026-01-01 12:30:00 UTC, 2 rows")
    cells = [text for text, _ in shown.cells]
    assert cells[:5] == ["region", "n", "x", "price", "name"]
    assert cells[5:] == ["eu", "1", "1.5", "2.50", "a", "us", "1", "0.3", "2.50", "a"]


def test_more_rows_than_are_shown_are_counted(store: ViewStore) -> None:
    fill(store, [row(f"{number:04}") for number in range(1500)])
    shown = page(store)
    assert "20 of 1,500 rows" in shown.text
    assert [text for text, _ in shown.cells[5::5]] == [f"{number:04}" for number in range(20)]


@pytest.mark.parametrize(
    ("rows", "says"), [(0, "0 rows"), (1, "1 row"), (20, "20 rows"), (21, "20 of 21 rows")]
)
def test_the_amount_of_rows_is_said(store: ViewStore, rows: int, says: str) -> None:
    fill(store, [row(str(number)) for number in range(rows)])
    assert page(store).text.split(", ")[2].startswith(says)


def test_numbers_are_on_the_right_and_nulls_are_dim(store: ViewStore) -> None:
    fill(store, [row("eu", n=None, name="null")])
    shown = page(store)
    for number in ("n", "x", "price", "1.5", "2.50"):
        assert "text-align:right" in shown.style(number)
    assert "text-align:left" in shown.style("eu")
    dim, plain = (style for text, style in shown.cells if text == "null")
    assert "opacity" in dim
    assert "opacity" not in plain


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("\"'&amp;", "\"'&amp;"),
        ("a\nb\x1b[31m\x00", r"a\nb\x1b[31m\x00"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("y" * 500, "y" * 199 + "…"),
    ],
)
def test_a_value_is_text_whatever_is_in_it(store: ViewStore, given: str, text: str) -> None:
    fill(store, [row("eu", name=given)])
    shown = page(store)
    assert shown.cells[-1][0] == text
    assert set(shown.tags) == {"div", "b", "span", "table", "thead", "tbody", "tr", "th", "td"}


def test_names_are_escaped_too(store: ViewStore) -> None:
    schema = ViewSchema("<b>t", (Column("<i>k", parse("string")),), (Column("n\n", parse("long")),))
    fill(store, [{"<i>k": "a", "n\n": 1}], schema=schema)
    shown = Page(TableReader(store, "<b>t")._repr_html_())
    assert shown.text.startswith("<b>t batch")
    assert [text for text, _ in shown.cells] == ["<i>k", r"n\n", "a", "1"]
    assert "i" not in shown.tags


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (1e300, "1e+300"),
        (2**63 - 1, "9223372036854775807"),
        (Decimal("1E+3"), "1000"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, 4, 5, 600), "2026-01-02 03:04:05.000600"),
        (b"\x0a\xff", "0aff"),
        ([1, None, "é", {"a": Decimal("0.10")}], '[1, null, "é", {"a": "0.10"}]'),
        ({(1, 2): AT}, '{"[1, 2]": "2026-01-01 12:30:00 UTC"}'),
    ],
)
def test_each_kind_of_value_has_a_spelling(value: Any, text: str) -> None:
    assert html.text(value) == text


def test_before_the_first_batch_it_says_so(store: ViewStore) -> None:
    store.create(TOTALS)
    assert page(store).text == "totals no batch yet"
    assert repr(TableReader(store, "totals")) == "TableReader('totals', no batch yet)"


def test_without_views_it_says_so() -> None:
    shown = page(NoViews())
    assert shown.text.startswith("totals views are turned off; start the app without KEYFOLD_VIEWS=none")
    assert repr(TableReader(NoViews(), "totals")) == "TableReader('totals', views are turned off)"


def test_a_repr_is_one_line_and_never_raises(store: ViewStore, tmp_path: Path) -> None:
    fill(store, [row("eu")])
    assert repr(TableReader(store, "totals")) == "TableReader('totals', batch 4)"
    assert repr(TableReader(store, "a\nb")) == r"TableReader('a\nb', unknown table 'a\nb')"
    nowhere = views_in(tmp_path / "none.db").open(read_only=True)
    assert repr(TableReader(nowhere, "totals")) == "TableReader('totals', there are no views yet)"
    assert "there are no views yet" in page(nowhere).text


@pytest.fixture
def reader(store: ViewStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[TableReader]:
    monkeypatch.setenv("MPLBACKEND", "agg")
    fill(store, [row("us", n=1), row("eu", n=5), row("asia", n=None)])
    yield TableReader(store, "totals")
    from matplotlib import pyplot

    pyplot.close("all")


def test_a_plot_has_the_key_along_the_axis(reader: TableReader) -> None:
    axes = reader.plot("N", order_by="n desc", where="n > 0", title="rows")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["eu", "us"]
    assert [bar.get_height() for bar in axes.patches] == [5, 1]
    assert axes.get_title() == "rows"


def test_a_plot_without_columns_has_all_numbers(reader: TableReader) -> None:
    axes = reader.plot(kind="barh", limit=2, at_least=4)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["n", "x", "price"]
    assert [bar.get_width() for bar in axes.patches[-2:]] == [2.5, 2.5]


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ("pric", "did you mean 'price'?"),
        ("zzz", "try: one of: n, x, price"),
        ("name", "column 'name' is not numeric: string"),
        ("region", "is part of the key, which is the x-axis"),
    ],
)
def test_a_column_that_cannot_be_plotted_is_refused(reader: TableReader, column: str, says: str) -> None:
    with pytest.raises(QueryError) as caught:
        reader.plot("n", column)
    assert says in str(caught.value)
    assert caught.value.reason == "bad_request"


def test_a_plot_of_no_rows_is_refused(store: ViewStore, reader: TableReader) -> None:
    with pytest.raises(QueryError, match="no rows to plot"):
        reader.plot("n", where="n > 1000")


def test_a_table_without_numbers_has_no_plot(store: ViewStore) -> None:
    words = ViewSchema("words", (Column("k", parse("long")),), (Column("w", parse("string")),))
    store.create(words)
    for columns, why in (
        ((), "the table has no numeric column to plot"),
        (("w",), "'w' is not numeric: string"),
    ):
        with pytest.raises(QueryError, match=why):
            TableReader(store, "words").plot(*columns)


def test_nested_keys_and_several_keys_can_be_plotted(store: ViewStore, reader: TableReader) -> None:
    point = parse({"type": "struct", "fields": [{"name": "x", "type": "long"}]})
    schema = ViewSchema(
        "points", (Column("p", point), Column("d", parse("date"))), (Column("n", parse("long")),)
    )
    fill(store, [{"p": {"x": 1}, "d": AT.date(), "n": 7}], schema=schema)
    axes = TableReader(store, "points").plot()
    assert [label.get_text() for label in axes.get_xticklabels()] == ['({"x": 1}, 2026-01-01)']


def test_without_matplotlib_a_plot_says_what_to_install(store: ViewStore, tmp_path: Path) -> None:
    fill(store, [row("eu")])
    code = """
import sys
from pathlib import Path
sys.modules["matplotlib"] = None
from keyfold.errors import RunError
from keyfold.views.reader import TableReader
from keyfold.views.stores import views_in
try:
    TableReader(views_in(Path(sys.argv[1])).open(read_only=True), "totals").plot("n")
except RunError as error:
    print(error)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "views.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("plot needs matplotlib\n")
    assert "try: pip install matplotlib" in done.stdout
