"""Which input file stopped a query, told from Spark's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyfold.engine.recovery.query_failure import failed
from keyfold.engine.storage.layout import AppHome

READ = (
    "[FAILED_READ_FILE.{kind}] Encountered error while reading file file:///in/a%20b.json.gz. {more}"
    " SQLSTATE: KD001"
)


class Java:
    """An exception of Java's, as Python sees it."""

    def __init__(self, message: str, cause: Java | None = None) -> None:
        self.getMessage, self.getCause = lambda: message, lambda: cause


class Error(Exception):
    def __init__(self, *messages: str) -> None:
        super().__init__(messages[0])
        self.java_exception = None
        for message in reversed(messages):
            self.java_exception = Java(message, self.java_exception)


def told(*messages: str) -> tuple[str, str, str]:
    error = failed("shop", "totals", 3, Error(*messages), AppHome(Path("home/shop").resolve()))
    return error.what, error.given or "", error.hint or ""


@pytest.mark.parametrize(
    "text",
    [
        "[KEYFOLD_MISSING_FILES] file:/in/a%20b.json.gz",
        "[KEYFOLD_MISSING_FILES] file:/in/a%20b.json.gz\n=== Streaming Query ===\nIdentifier: shop.t",
        READ.format(kind="FILE_NOT_EXIST", more="File does not exist."),
    ],
)
def test_files_that_are_gone_are_named_with_both_ways_out(text: str) -> None:
    what, given, hint = told("[STREAM_FAILED] Query ended", text, "File file:/in/a b.json.gz does not exist")
    assert (what, given) == ("input files of this batch are missing", "/in/a b.json.gz")
    assert "restore the files" in hint
    assert "missing_files=skip" in hint


def test_a_file_that_can_t_be_read_is_named_with_the_cause() -> None:
    what, given, hint = told(READ.format(kind="NO_HINT", more=""), "incorrect header check")
    assert (what, given) == ("an input file can't be read: incorrect header check", "/in/a b.json.gz")
    assert "replace it" in hint
    denied = "/in/a b.json.gz (Permission denied)"
    what, _, _ = told(READ.format(kind="FILE_NOT_EXIST", more="File does not exist."), denied)
    assert what == f"an input file can't be read: {denied}"


def test_columns_that_don_t_fit_are_told_in_sparks_words() -> None:
    what, _, _ = told(READ.format(kind="PARQUET_COLUMN_DATA_TYPE_MISMATCH", more="Column [x] is INT32."))
    assert "INT32" in what


def test_a_file_of_another_tables_log_is_named_with_the_table() -> None:
    damaged = "[KEYFOLD_LOG_DAMAGED] file:/a%20home/shop/tables/sums/log/data/7-ab/part.parquet is missing"
    what, given, hint = told("[STREAM_FAILED] Query ended", f"{damaged}\n=== Streaming Query ===")
    file = "/a home/shop/tables/sums/log/data/7-ab/part.parquet"
    assert (what, given) == (f"the log of shop.sums is damaged: {file} is missing", file)
    assert "restore it from a backup of the home; or `keyfold reset shop.totals`" in hint
    assert hint.endswith("after which it starts from the rows that sums has now")
    what, given, _ = told("[KEYFOLD_LOG_DAMAGED] hdfs://nn/h/shop/tables/sums/log/7.json has layout 2")
    assert (what, given) == (
        "the log of shop.sums is damaged: hdfs://nn/h/shop/tables/sums/log/7.json has layout 2",
        "hdfs://nn/h/shop/tables/sums/log/7.json",
    )


def test_a_snapshot_that_a_table_begins_with_is_one_of_the_table_that_it_reads() -> None:
    what, _, _ = told("[KEYFOLD_LOG_DAMAGED] file:/h/shop/tables/totals/inputs/0-sums/7.parquet is missing")
    assert what.startswith("the log of shop.sums is damaged: ")


def test_a_log_that_begins_too_late_is_told_by_its_batches() -> None:
    what, given, hint = told(
        "[KEYFOLD_LOG_PRUNED] file:/h/shop/tables/sums/log begins after batch 41, needed 13"
    )
    assert what == "changes of sums that shop.totals has not read are gone"
    assert given == "the log of sums begins after batch 41, and batch 13 is needed"
    assert hint.startswith("`keyfold reset shop.totals`")
