"""Folds of one's own."""

import pytest

import keyfold as kf
from keyfold.errors import BadExpression, BadName, BadOption


def test_the_only_field_is_the_result_unless_said_otherwise():
    made = kf.fold(zero={"v": "0"}, update={"v": "state.v + x"})
    assert made.result == "state.v"
    assert made.merge is None
    assert kf.fold(zero={"v": "0"}, update={"v": "x"}, result="state.v * 2").result == "state.v * 2"


def test_the_fields_stand_in_the_order_of_zero():
    made = kf.fold(
        zero={"a": "0", "b": "1"},
        update={"b": "b1", "a": "a1"},
        merge={"b": "b2", "a": "a2"},
        result="state.a",
    )
    assert made.update == (("a", "a1"), ("b", "b1"))
    assert made.merge == (("a", "a2"), ("b", "b2"))


def test_several_fields_need_a_result():
    with pytest.raises(BadOption, match="needs result="):
        kf.fold(zero={"a": "0", "b": "0"}, update={"a": "1", "b": "1"})


@pytest.mark.parametrize("part", ["update", "merge"])
def test_fields_that_differ_from_zero_are_refused_and_the_nearest_suggested(part):
    parts = {"update": {"count": "1"}, "merge": {"count": "1"}, part: {"cuont": "1"}}
    with pytest.raises(BadOption, match=rf"(?s)zero and {part} .* same fields.*did you mean 'count'"):
        kf.fold(zero={"count": "0"}, **parts)


def test_a_missing_field_is_named():
    with pytest.raises(BadOption, match=r"(?s)zero: a, b; update: a.*add b to update.*state\.b"):
        kf.fold(zero={"a": "0", "b": "0"}, update={"a": "1"}, result="1")
    with pytest.raises(BadOption, match="add b to zero"):
        kf.fold(zero={"a": "0"}, update={"a": "1", "b": "1"})


def test_a_fold_without_fields_is_refused():
    with pytest.raises(BadOption, match="at least one field"):
        kf.fold(zero={}, update={})


@pytest.mark.parametrize("given", ["0", None, ["a"], [("a", "0")]])
def test_what_is_no_dict_is_refused(given):
    with pytest.raises(BadOption, match="must be a dict"):
        kf.fold(zero=given, update={"a": "1"})


def test_a_number_is_refused_and_shown_as_sql():
    with pytest.raises(BadExpression, match=r"(?s)zero field 'n' is not an expression.*given: 0.*'0'"):
        kf.fold(zero={"n": 0}, update={"n": "1"})


@pytest.mark.parametrize("name", ["a b", "1a", "_a", "", 3])
def test_a_field_that_is_no_identifier_is_refused(name):
    with pytest.raises(BadName, match="zero field"):
        kf.fold(zero={name: "0"}, update={name: "1"})


def test_fields_that_differ_in_case_only_are_refused():
    with pytest.raises(BadName, match="names are case-insensitive"):
        kf.fold(zero={"a": "0", "A": "0"}, update={"a": "1", "A": "1"}, result="state.a")


def test_functions_are_accepted_in_every_part():
    def column():
        return None

    made = kf.fold(zero={"v": column}, update={"v": column}, merge={"v": column}, result=column)
    assert made.result is column


def test_equal_folds_are_equal_wherever_they_stand():
    first = kf.fold(zero={"v": "0"}, update={"v": "1"})
    second = kf.fold(zero={"v": "0"}, update={"v": "1"})
    assert first.site != second.site
    assert first == second
    assert hash(first) == hash(second)
