"""The options that kf.files accepts are those that Spark itself knows."""

from __future__ import annotations

from typing import Any

import pytest

from keyfold.plan import file_options
from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm

CATALYST, SOURCES = "org.apache.spark.sql.catalyst", "org.apache.spark.sql.execution.datasources"
LISTS = {
    "json": f"{CATALYST}.json.JSONOptions",
    "csv": f"{CATALYST}.csv.CSVOptions",
    "parquet": f"{SOURCES}.parquet.ParquetOptions",
}
STREAM_OPTIONS = "org.apache.spark.sql.execution.streaming.runtime.FileStreamOptions"


def spark_options(name: str) -> set[str]:
    """The options in a list of Spark's; those with a dot are Hadoop's."""
    jvm: Any = shared_session()._jvm
    found = jvm.java.lang.Class.forName(f"{name}$").getField("MODULE$").get(None).getAllOptions().iterator()
    names = set()
    while found.hasNext():
        names.add(str(found.next()).lower())
    return {option for option in names if "." not in option}


@pytest.mark.parametrize("format", LISTS)
def test_no_option_of_spark_is_refused(format: str) -> None:
    known = {name.lower() for name in file_options.options_of(format)}
    assert spark_options(LISTS[format]) | spark_options(f"{SOURCES}.FileIndexOptions") <= known


@pytest.mark.parametrize("format", LISTS)
def test_options_of_a_format_are_known_to_spark(format: str) -> None:
    mine = {name.lower() for name in file_options._OF_FORMAT[format]}
    assert mine <= spark_options(LISTS[format])


def test_options_of_streams_are_words_of_the_class_that_reads_them() -> None:
    jvm: Any = shared_session()._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    stream = loader.getResourceAsStream(f"{STREAM_OPTIONS.replace('.', '/')}.class")
    text = bytes(stream.readAllBytes()).decode("latin-1")
    assert [name for name in file_options._STREAMING if name not in text] == []
