"""Which file stopped a query, told from Spark's words, or by the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyfold.engine.recovery.query_failure import explain_failure
from keyfold.engine.spark_errors import KernelError, kernel_error
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import RunError
from keyfold.kernel.api import ErrorCode

READ = (
    "[FAILED_READ_FILE.{kind}] Encountered error while reading file file:///in/a%20b.json.gz. {more}"
    " SQLSTATE: KD001"
)


class Java:
    """An exception of Java's, as Python sees it."""

    def __init__(self, message: str, cause: Java | None = None) -> None:
        self.getMessage, self.getCause = lambda: message, lambda: cause


class SparkJava(Java):
    """One of Spark's exceptions, as the kernel throws them."""

    def __init__(self, code: str, payload: dict[str, str]) -> None:
        super().__init__(f"[{code}] in words")
        self.getCondition, self.getMessageParameters = lambda: code, lambda: payload


class Error(Exception):
    def __init__(self, *messages: str) -> None:
        super().__init__(messages[0])
        self.java_exception = None
        for message in reversed(messages):
            self.java_exception = Java(message, self.java_exception)


def of_kernel(code: ErrorCode, **payload: str) -> Error:
    """A failed query, whose task threw an error of the kernel's own."""
    error = Error("[STREAM_FAILED] Query ended")
    error.java_exception = Java("[STREAM_FAILED] Query ended", Java("Job aborted", SparkJava(code, payload)))
    return error


def told(*messages: str) -> tuple[str, str, str]:
    return explained(Error(*messages))


def explained(found: Error) -> tuple[str, str, str]:
    error: RunError = explain_failure("shop", "totals", 3, found, AppHome(Path("home/shop").resolve()))
    return error.what, error.given or "", error.hint or ""


@pytest.mark.parametrize(
    "error",
    [
        of_kernel(ErrorCode.MISSING_FILES, files='["file:/in/a%20b.json.gz"]'),
        Error(
            "[STREAM_FAILED] Query ended",
            READ.format(kind="FILE_NOT_EXIST", more="File does not exist."),
            "File file:/in/a b.json.gz does not exist",
        ),
    ],
)
def test_files_that_are_gone_are_named_with_both_ways_out(error: Error) -> None:
    what, given, hint = explained(error)
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
    path = "file:/a%20home/shop/tables/sums/log/data/7-ab/part.parquet"
    what, given, hint = explained(of_kernel(ErrorCode.LOG_DAMAGED, file=path, problem="is missing"))
    file = "/a home/shop/tables/sums/log/data/7-ab/part.parquet"
    assert (what, given) == (f"the log of shop.sums is damaged: {file} is missing", file)
    assert "restore it from a backup of the home; or `keyfold reset shop.totals`" in hint
    assert hint.endswith("after which it starts from the rows that sums has now")
    remote = "hdfs://nn/h/shop/tables/sums/log/7.json"
    what, given, _ = explained(of_kernel(ErrorCode.LOG_DAMAGED, file=remote, problem="has layout 2"))
    assert (what, given) == (
        "the log of shop.sums is damaged: hdfs://nn/h/shop/tables/sums/log/7.json has layout 2",
        "hdfs://nn/h/shop/tables/sums/log/7.json",
    )


def test_a_snapshot_that_a_table_begins_with_is_one_of_the_table_that_it_reads() -> None:
    path = "file:/h/shop/tables/totals/inputs/0-sums/7.parquet"
    what, _, _ = explained(of_kernel(ErrorCode.LOG_DAMAGED, file=path, problem="is missing"))
    assert what.startswith("the log of shop.sums is damaged: ")


def test_a_log_that_begins_too_late_is_told_by_its_batches() -> None:
    log = "file:/h/shop/tables/sums/log"
    what, given, hint = explained(of_kernel(ErrorCode.LOG_PRUNED, log=log, upto="41", needed="13"))
    assert what == "changes of sums that shop.totals has not read are gone"
    assert given == "the log of sums begins after batch 41, and batch 13 is needed"
    assert hint.startswith("`keyfold reset shop.totals`")


def test_a_row_that_may_not_be_rejected_is_told_with_its_reason_and_text() -> None:
    error = of_kernel(ErrorCode.REJECTED_ROW, reason="null key; row: x", row='{"k": null,\n"n": 1}')
    what, given, hint = explained(error)
    assert what == "a row can't be processed, and on_error is 'fail': null key; row: x"
    assert given == '{"k": null,\n"n": 1}'
    assert "on_error='reject'" in hint


def test_an_error_of_the_kernel_is_known_by_its_code_and_not_by_its_words() -> None:
    found = kernel_error(of_kernel(ErrorCode.REGISTRY, problem="no answer"))
    assert found == KernelError(ErrorCode.REGISTRY, {"problem": "no answer"})
    assert kernel_error(Error("[KEYFOLD_REGISTRY] no answer")) is None
    assert kernel_error(RuntimeError("[KEYFOLD_REGISTRY] no answer")) is None
