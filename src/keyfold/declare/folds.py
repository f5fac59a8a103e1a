"""`kf.fold`: user-defined folds, beside Spark's aggregates."""

from __future__ import annotations

from collections.abc import Mapping

from keyfold.errors import BadOption, did_you_mean, near
from keyfold.plan.call_site import call_site
from keyfold.plan.nodes import Expr, FoldSpec, Named, Site
from keyfold.plan.validate import arguments


def fold(
    *,
    zero: Mapping[str, Expr],
    update: Mapping[str, Expr],
    result: Expr | None = None,
    merge: Mapping[str, Expr] | None = None,
    retract: Mapping[str, Expr] | None = None,
    migrate: Mapping[str, Expr] | None = None,
) -> FoldSpec:
    """A column that is folded by expressions that you write.

    `zero` is the state of a new key, field by field; `update` the state after a row, where `state.<field>` is
    the old value and plain names are the row's columns; `result` is the value of the column, by default the
    only field. `merge` combines two states, `state` and `other`: sliding windows, sessions and rolling
    windows with `every` need it; other tables fold row by row, in order, and only check it. `retract` removes
    a row that was folded before, and is written like `update`; tables on a retracting stream need it.
    `migrate` is for `keyfold migrate`, after the fold was changed: fields of the new state, computed from the
    `state` of the old fold; a field without an entry keeps its old value, or begins with its zero.

    >>> total = kf.fold(
    ...     zero={"v": "0D"}, update={"v": "state.v + amount"}, merge={"v": "state.v + other.v"}
    ... )
    >>> total.result
    'state.v'
    """
    site = call_site()
    zeros = _fields(zero, "zero", site)
    if not zeros:
        raise BadOption("a fold needs at least one field", where=site, hint='zero={"n": "0L"}')
    return FoldSpec(
        zero=zeros,
        update=_same_fields(zeros, update, "update", site),
        result=_result(zeros, result, site),
        merge=None if merge is None else _same_fields(zeros, merge, "merge", site),
        retract=None if retract is None else _same_fields(zeros, retract, "retract", site),
        migrate=None if migrate is None else _some_fields(zeros, migrate, site),
        site=site,
    )


def _fields(given: object, what: str, site: Site | None) -> Named:
    advice = f'{what}={{"n": "..."}}'
    mapping = arguments.mapping(given, f"{what} of a fold must be a dict of expressions", advice, site)
    return arguments.check_named(mapping, f"a {what} field", site)


def _same_fields(zeros: Named, given: object, what: str, site: Site | None) -> Named:
    """The fields in zero's order, which is the order of the state on disk."""
    fields = dict(_fields(given, what, site))
    names = [name for name, _ in zeros]
    missing = [name for name in names if name not in fields]
    unknown = [name for name in fields if name not in names]
    if missing or unknown:
        problem = f"zero and {what} of a fold must name the same fields"
        shown = f"zero: {', '.join(names)}; {what}: {', '.join(fields) or 'none'}"
        raise BadOption(problem, where=site, given=shown, hint=_advice(missing, unknown, what))
    return tuple((name, fields[name]) for name in names)


def _some_fields(zeros: Named, given: object, site: Site | None) -> Named:
    fields = _fields(given, "migrate", site)
    names = [name for name, _ in zeros]
    for name, _ in fields:
        if name not in names:
            hint = did_you_mean(name, names, f"one of {', '.join(names)}")
            raise BadOption(
                "migrate of a fold names a field that zero does not", where=site, given=name, hint=hint
            )
    return fields


def _advice(missing: list[str], unknown: list[str], what: str) -> str:
    for name in unknown:
        if meant := near(name, missing):
            return f"did you mean {meant!r}?"
    if missing:
        return f"add {', '.join(missing)} to {what}; for a field that does not change, 'state.{missing[0]}'"
    return f"add {', '.join(unknown)} to zero"


def _result(zeros: Named, result: object, site: Site | None) -> Expr:
    if result is not None:
        return arguments.expression(result, "result of a fold", site)
    if len(zeros) == 1:
        return f"state.{zeros[0][0]}"
    names = ", ".join(name for name, _ in zeros)
    hint = f"result='state.{zeros[0][0]}'"
    raise BadOption("a fold with several fields needs result=", where=site, given=names, hint=hint)
