"""Schemas in DDL."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import BadName, BadOption
from keyfold.plan.ddl import columns
from tests.unit.plan.spark_ddl import VALID


@pytest.mark.parametrize(
    ("ddl", "expected"),
    [
        ("a int", {"a": "int"}),
        ("a: int, b:string", {"a": "int", "b": "string"}),
        ("a decimal(10,2) not null, b int", {"a": "decimal(10,2) not null", "b": "int"}),
        (
            "m map<string,array<int>>, s struct<a:int,b:struct<c:int>>",
            {"m": "map<string,array<int>>", "s": "struct<a:int,b:struct<c:int>>"},
        ),
        ("`odd, name` int, `a``b`  string", {"odd, name": "int", "a`b": "string"}),
        ("a int comment 'one, two', b int", {"a": "int comment 'one, two'", "b": "int"}),
        ("\n  a int,\n  b timestamp\n", {"a": "int", "b": "timestamp"}),
        ("i interval day to second", {"i": "interval day to second"}),
        ("_id string", {"_id": "string"}),
        ("a string collate UTF8_LCASE", {"a": "string collate UTF8_LCASE"}),
        ("a int not null comment 'x y'", {"a": "int not null comment 'x y'"}),
        ("a int default 3", {"a": "int default 3"}),
    ],
)
def test_names_and_types_are_read(ddl, expected):
    assert columns(ddl) == expected


@pytest.mark.parametrize(
    ("ddl", "problem"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a", "'a' has no type"),
        ("a int, b", "'b' has no type"),
        ("a int,, b int", "empty column between commas"),
        ("a int,", "empty column between commas"),
        ("a array<int", "is missing a closing '>'"),
        ("a decimal(1, b int", r"is missing a closing '\)'"),
        ("a int>", "unmatched '>'"),
        ("a array<int)", r"unmatched '\)'"),
        ("`a int", "is missing a closing '`'"),
        ("a int b timestamp", "lacks a comma: column 'a' has the type 'int b timestamp'"),
        ("a decimal(10,2) b map<string,int>, c int", "lacks a comma: column 'a'"),
        ("a string not null b int", "lacks a comma"),
        ("a: int b: int", "lacks a comma"),
        ("struct<a:int,b:string>", "has a type and no name"),
        ("a string b", "lacks a comma"),
        (None, "must be a string"),
        (["a int"], "must be a string"),
    ],
)
def test_what_is_no_schema_is_refused(ddl, problem):
    with pytest.raises(BadOption, match=problem):
        columns(ddl)


def test_a_column_given_twice_is_refused():
    with pytest.raises(BadName, match="schema column 'A' is given twice"):
        columns("a int, A string")


@pytest.mark.parametrize("ddl", VALID)
def test_what_spark_accepts_is_accepted(ddl):
    assert columns(ddl)


@pytest.mark.parametrize(
    ("ddl", "name", "hint"),
    [
        ("a strin", "strin", "did you mean 'string'?"),
        ("a int, b Timestmp not null", "Timestmp", "did you mean 'timestamp'?"),
        ("a map<string, array<struct<int: int, y: integr>>>", "integr", "did you mean 'integer'?"),
        ("a decimel(10,2)", "decimel", "did you mean 'decimal'?"),
        ("a list<strin>", "list", "did you mean 'array'?"),
        ("a int64", "int64", "did you mean 'bigint'?"),
        ("a datetime", "datetime", "did you mean 'timestamp'?"),
        ("a uuid", "uuid", "one of: string, int, bigint"),
    ],
)
def test_a_type_that_spark_does_not_know_is_refused_with_the_near_name(ddl, name, hint):
    with pytest.raises(BadOption, match=f"has an unknown type '{name}'") as refused:
        columns(ddl)
    assert str(refused.value.hint).startswith(hint)


@pytest.mark.parametrize("ddl", ["a `strin`", "a 'x'", "a strin.g", "a array", "a char", "a int(3)"])
def test_what_may_be_a_type_is_left_to_spark(ddl):
    assert columns(ddl)


@given(st.text(alphabet="ab ,<>()`:'", max_size=30))
def test_any_text_is_read_or_refused_and_nothing_else(ddl):
    with suppress(BadOption, BadName):
        assert columns(ddl)


@given(st.text(alphabet="ab ,<>()`:'-/*\\\n", max_size=30))
def test_any_text_after_a_type_is_read_or_refused_and_nothing_else(text):
    with suppress(BadOption, BadName):
        assert columns(f"a struct<x: int{text}")
