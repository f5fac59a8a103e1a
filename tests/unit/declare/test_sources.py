"""Sources and sinks, as they are described."""

import copy
import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

import keyfold as kf
from keyfold.errors import BadName, BadOption
from keyfold.plan.nodes import Connector, Source


def test_files_are_json_unless_said_otherwise():
    assert kf.files("data/orders") == Connector("files", "json", "data/orders")
    assert kf.files(Path("in") / "*.csv", format="csv").path == "in/*.csv"


def test_options_become_the_text_that_spark_takes():
    options = {"header": True, "multiLine": False, "maxFilesPerTrigger": 3, "samplingRatio": 0.5, "sep": ";"}
    made = kf.files("x", format="csv", **options)
    assert dict(made.options) == {
        "header": "true",
        "multiLine": "false",
        "maxFilesPerTrigger": "3",
        "samplingRatio": "0.5",
        "sep": ";",
    }


def test_an_unknown_format_is_refused_with_the_nearest():
    with pytest.raises(BadOption, match=r"(?s)json, csv, parquet.*'jsn'.*did you mean 'json'"):
        kf.files("x", format="jsn")


@pytest.mark.parametrize("path", ["", " ", None, 3, b"x"])
def test_a_path_that_is_none_is_refused(path):
    with pytest.raises(BadOption, match="path"):
        kf.files(path)


@pytest.mark.parametrize("value", [None, [], {}, object()])
def test_option_values_that_spark_cannot_take_are_refused(value):
    with pytest.raises(BadOption, match="option 'header'"):
        kf.files("x", header=value)


def test_the_same_option_in_two_spellings_is_refused():
    with pytest.raises(BadName, match="names are case-insensitive"):
        kf.files("x", multiLine=True, multiline=False)


def test_rate_has_its_speed_as_an_option():
    assert kf.rate(rows_per_second=50, numPartitions=2) == Connector(
        "rate", "rate", None, (("rowsPerSecond", "50"), ("numPartitions", "2"))
    )


@pytest.mark.parametrize("speed", [0, -1, 1.5, "5", True, None])
def test_a_speed_that_is_no_whole_number_above_zero_is_refused(speed):
    with pytest.raises(BadOption, match="rows_per_second must be a whole number above zero"):
        kf.rate(rows_per_second=speed)


def test_spark_takes_any_format():
    made = kf.spark("socket", host="localhost", port=9999)
    assert made.options == (("host", "localhost"), ("port", "9999"))
    assert kf.spark("delta", Path("/lake/orders")).path == "/lake/orders"
    for format in ("", " ", None):
        with pytest.raises(BadOption, match="format"):
            kf.spark(format)


def test_rows_are_copied_and_frozen():
    given = [{"id": "1", "tags": ["a"]}]
    made = kf.rows(given)
    given[0]["tags"].append("b")
    given.append({})
    assert made.rows == ({"id": "1", "tags": ("a",)},)
    with pytest.raises(TypeError, match="can't change"):
        made.rows[0]["id"] = "2"
    with pytest.raises(TypeError, match="can't change"):
        made.rows[0].update(id="2")


def test_rows_can_be_hashed_compared_copied_and_pickled():
    first, second = (kf.rows([{"a": {"b": [1, {"c": None}]}}]) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert pickle.loads(pickle.dumps(first)) == copy.deepcopy(first) == first


def test_rows_hold_what_json_can_say_as_spark_reads_it():
    row = {
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "price": Decimal("1.10"),
        "raw": b"\x00\x01",
        "nan": float("nan"),
        "low": float("-inf"),
        "high": float("inf"),
        "none": None,
        "yes": True,
        "nested": {"a": [1, 2]},
    }
    (made,) = kf.rows([row]).rows
    assert json.loads(json.dumps(made, allow_nan=False)) == {
        "at": "2026-01-01T00:00:00+00:00",
        "day": "2026-01-02",
        "price": "1.10",
        "raw": "AAE=",
        "nan": "NaN",
        "low": "-Infinity",
        "high": "Infinity",
        "none": None,
        "yes": True,
        "nested": {"a": [1, 2]},
    }


def test_no_rows_are_fine():
    assert kf.rows([]).rows == ()
    assert len(kf.rows({"a": n} for n in range(3)).rows) == 3


@pytest.mark.parametrize("given", [None, 3, "text", {"a": 1}, [1], [{"a": 1}, None], [{1: 2}], [{"a": {1}}]])
def test_what_is_no_list_of_rows_is_refused(given):
    with pytest.raises(BadOption):
        kf.rows(given)


def test_a_bad_value_in_a_row_is_named_with_its_place():
    with pytest.raises(BadOption, match=r"'b'.*of row 1"):
        kf.rows([{}, {"a": {"b": object()}}])


def test_the_place_of_a_mistake_is_the_users_line():
    with pytest.raises(BadOption, match=r"where: test_sources.py:\d+"):
        kf.files("x", format="xml")


def test_a_stream_says_whether_it_has_a_log_and_for_how_long() -> None:
    app = kf.App("shop")
    kept = app.stream("kept", kf.files("data"), schema="id string", history="7 days").node
    assert isinstance(kept, Source)
    assert (kept.history_ms, kept.shared) == (604_800_000, None)
    shared = app.stream("shared", kf.files("data"), schema="id string", shared=True).node
    assert isinstance(shared, Source)
    assert (shared.history_ms, shared.shared) == (None, True)
    assert "of its own, history 7 days" in app.describe()
    with pytest.raises(BadOption, match="`history` needs the stream's own log"):
        app.stream("neither", kf.files("data"), schema="id string", history="7 days", shared=False)
    with pytest.raises(BadOption, match="`shared` must be True, False or None"):
        app.stream("text", kf.files("data"), schema="id string", shared="yes")  # type: ignore[arg-type]
    topic = kf.kafka("127.0.0.1:9092", topic="orders")
    assert app.stream("topic", topic, schema="id string", history="7 days").node.history_ms == 604_800_000
