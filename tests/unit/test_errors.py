"""The errors and their text."""

import copy
import inspect
import pickle

import pytest

from keyfold import errors
from keyfold.errors import BadOption, KeyfoldError, QueryError, QueryFailed, did_you_mean, near


def classes():
    return [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, KeyfoldError)]


def test_the_text_says_what_where_given_and_what_to_do():
    error = BadOption(
        "unknown option 'tll' of table",
        where="shop.region_totals, shop.py:12",
        given="tll='30 days'",
        hint="did you mean 'ttl'?",
    )
    assert str(error) == (
        "unknown option 'tll' of table\n"
        "  where: shop.region_totals, shop.py:12\n"
        "  given: tll='30 days'\n"
        "  try: did you mean 'ttl'?"
    )


def test_what_is_not_known_is_left_out():
    assert str(BadOption("no")) == "no"


def test_further_lines_are_indented():
    assert str(BadOption("no", hint="one\ntwo")) == "no\n  try: one\n    two"


def test_every_error_is_in_the_tree_of_the_docstring():
    assert errors.__doc__ is not None
    for error in classes():
        assert f" {error.__name__} " in errors.__doc__ or f"\n{error.__name__} " in errors.__doc__, error
        assert error.__doc__


@pytest.mark.parametrize(
    ("family", "builtin"),
    [
        (errors.DeclarationError, ValueError),
        (errors.RunError, RuntimeError),
        (errors.QueryError, LookupError),
    ],
)
def test_each_family_is_also_a_builtin_error(family, builtin):
    assert issubclass(family, builtin)
    assert issubclass(family, KeyfoldError)


def test_a_run_error_carries_app_table_and_batch_and_shows_them():
    error = QueryFailed("stopped", app="shop", table="totals", batch=0)
    assert (error.app, error.table, error.batch) == ("shop", "totals", 0)
    assert str(error) == "stopped\n  where: shop.totals, batch 0"
    assert str(QueryFailed("stopped")) == "stopped"
    assert str(QueryFailed("stopped", app="shop", where="there")) == "stopped\n  where: there"


@pytest.mark.parametrize(("reason", "status"), errors.STATUS.items())
def test_a_query_error_has_a_reason_and_its_status(reason, status):
    error = QueryError("no answer", reason=reason)
    assert (error.reason, error.status) == (reason, status)


@pytest.mark.parametrize("error", classes())
def test_every_error_survives_copying_and_pickling(error):
    made = error("what", where="where", given="given", hint="hint")
    for twin in (copy.copy(made), pickle.loads(pickle.dumps(made))):
        assert type(twin) is error
        assert str(twin) == str(made)
        assert vars(twin) == vars(made)


def test_near_names_are_found_whatever_their_case():
    assert near("REGOIN", ["region", "amount"]) == "region"
    assert near("zzz", ["region"]) is None
    assert near("x", []) is None


def test_a_hint_suggests_the_nearest_or_falls_back():
    assert did_you_mean("tll", ["ttl", "help"]) == "did you mean 'ttl'?"
    assert did_you_mean("zzz", ["ttl"], "one of: ttl") == "one of: ttl"
    assert did_you_mean("zzz", ["ttl"]) is None
