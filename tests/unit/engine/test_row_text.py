"""The text of a row has a key as whole values, by column where the stream's format says which is which."""

from __future__ import annotations

import json

import pytest

from keyfold.engine.log.row_text import StreamText, of_plan
from keyfold.engine.storage.stored_app import StoredApp

COLUMNS = {"person": "string", "x": "int", "amount": "decimal(10,2)"}
JSON, CSV, OTHER = StreamText("json", COLUMNS), StreamText("csv", COLUMNS), StreamText()


@pytest.mark.parametrize(
    ("form", "text", "found"),
    [
        (JSON, '{"person": "ada", "x": 1}', "column"),
        (JSON, '{"Person": "ada"}', "column"),
        (JSON, '{"person": "bob", "friend": "ada"}', None),
        (JSON, '{"friend": "ada"}', None),
        (OTHER, '{"friend": "ada"}', "word"),
        (OTHER, '{"friends": [{"name": "ada"}]}', "word"),
        (OTHER, '{"friend": "ada b"}', None),
        (JSON, '{"person": "ada"', "column"),
        (JSON, '{"person":"ada', "column"),
        (JSON, '{"person": "bob", "friend": "ada", ', None),
        (JSON, '{"x": 1, "friend": "ada", ', "word"),
        (CSV, "ada,7,1.5", "column"),
        (CSV, '"ada",x,y', "column"),
        (CSV, "bob,ada,1.5", None),
        (CSV, "person,x,amount\nada,1,2\nbob,1,2", "column"),
        (CSV, "bob,1", None),
        (CSV, "bob,ada", "word"),
        (CSV, "ada;7;1.5", None),
        (StreamText("csv", COLUMNS, {"sep": ";"}), "ada;7;1.5", "column"),
        (StreamText("csv", COLUMNS, {"delimiter": "||"}), "ada||7||1.5", "column"),
        (StreamText("csv", COLUMNS, {"sep": r"\t"}), "bob\tada\t1.5", None),
        (StreamText("csv", COLUMNS, {"quote": ""}), '"ada",7,1.5', None),
        (StreamText("csv", {"name": "string", "x": "int"}), "ada,7", "word"),
        (OTHER, "7;'ada';x", "word"),
        (OTHER, "x\tada", "word"),
        (OTHER, "adam,7,x", None),
        (OTHER, "bob,ada@example.org", None),
        (OTHER, "bob,x-ada,ada.b,ada/b", None),
        (OTHER, None, None),
    ],
)
def test_text_of_a_row_has_a_value_by_column_or_as_a_word(
    form: StreamText, text: str | None, found: str | None
) -> None:
    assert form.match(text, {"person": "ada"}) == found


@pytest.mark.parametrize("value", ["M\u00fcller", 'O"Neil', "a/b", "a\\b"])
def test_escapes_in_json_that_was_cut_are_read(value: str) -> None:
    escaped = [json.dumps(value), json.dumps(value).replace("/", r"\/")]
    for text in escaped:
        assert JSON.match(f'{{"person": {text}, "amount": x}}', {"person": value}) == "column"
        assert JSON.match(f'{{"x": 1, "friend": {text}, ', {"person": "else"}) is None
    assert JSON.match(f'{{"x": 1, "friend": {escaped[0]}, ', {"person": value}) == "word"
    assert JSON.match('{"person": "ada\\u00', {"person": "ada"}) is None


@pytest.mark.parametrize("text", ["7.5,ann", "17,ann", "-7,ann", "2026-01-7,ann", "1.7,ann"])
def test_a_short_key_is_not_found_inside_of_other_numbers(text: str) -> None:
    assert OTHER.match("7,ann", {"id": "7"}) == "word"
    assert OTHER.match(text, {"id": "7"}) is None


def test_a_short_key_erases_no_line_that_has_the_number_in_another_column() -> None:
    for text in ("1,2,1", '{"person": "2", "x": 1}', '{"person": "2", "x": 1', "2,1,"):
        form = JSON if text.startswith("{") else CSV
        assert form.match(text, {"person": "1"}) == ("column" if text == "1,2,1" else None), text


def test_numbers_are_compared_as_numbers_where_the_column_is_one() -> None:
    assert CSV.match("ada, 07,1.5", {"x": "7"}) == "column"
    assert CSV.match("ada,7,1.50", {"amount": "1.5", "x": "7"}) == "column"
    assert CSV.match("07,7,1.5", {"person": "7"}) is None
    assert JSON.match('{"x": 7.0}', {"x": "7"}) == "column"
    assert JSON.match('{"person": "ada", "x": "7"}', {"person": "ada", "x": "7"}) == "column"
    assert JSON.match('{"person": "ada", "x": "7"}', {"person": "ada", "x": "8"}) is None


def test_what_an_app_declares_says_how_its_streams_are_read() -> None:
    source = {"format": "csv", "options": {"SEP": ";"}}
    streams = [
        {"name": "Orders", "source": source, "schema": "person string, x int"},
        {"name": "any", "source": {"format": None}, "schema": None},
    ]
    found = of_plan(StoredApp(declared={"streams": streams}))
    assert found["orders"].match("ada;1", {"person": "ada"}) == "column"
    assert found["orders"].match("bob;ada", {"person": "ada"}) is None
    assert found["any"].match("bob;ada", {"person": "ada"}) == "word"
    assert of_plan(StoredApp()) == {}
