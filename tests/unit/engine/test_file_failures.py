"""Which input file stopped a query, told from Spark's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyfold.engine.recovery.query_failure import failed

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
    error = failed("shop", "totals", 3, Error(*messages), Path("home"))
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
