"""What PostgreSQL's errors mean, and what to do about them. Values of rows are left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from keyfold.errors import HomeUnusable, KeyfoldError, QueryError, RunError
from keyfold.masking import mask
from keyfold.views import arrow as pa

if TYPE_CHECKING:
    import psycopg

ALTERED: Final = "was changed by hand"
RECOVERY: Final = (
    "undo the change; or stop the app, drop the table, delete its row of _keyfold_views, and start the app, "
    "which rebuilds the view from state. Closed windows without `keep` exist only in the view, and tables of "
    "patterns and processors must then be reset (`keyfold reset`)"
)
"""What to do about a table that is not as keyfold has made it."""
_INSTALL: Final = 'pip install "keyfold[postgresql]"'
# Classes and codes of SQL states.
_LOST: Final = ("08", "57P01", "57P02", "57P03", "57P04", "57P05", "53300")
_CHANGED: Final = ("42703", "42P01", "42804", "42P10", "42883", "3F000", "42809", "23514", "23503")
_LOCKED: Final = ("55P03",)
_DEPENDENT: Final = ("2BP01",)
_FORBIDDEN: Final = ("42501",)
_DAMAGED: Final = ("XX001", "XX002")
# Too complex a filter, or one with values that the server does not take.
_ASKED: Final = ("54", "22")
_NOTHING: Final = ("42P01", "3F000")


def client() -> Any:
    """psycopg; without it a `HomeUnusable` that says how to get it."""
    try:
        import psycopg
    except ImportError as error:
        raise HomeUnusable(
            "views in PostgreSQL need its client, psycopg", given=error, hint=_INSTALL
        ) from None
    return psycopg


def lost(error: Exception) -> bool:
    """Whether the server can't be reached, or has ended the connection."""
    state = getattr(error, "sqlstate", None)
    return isinstance(error, client().OperationalError) and (state is None or state.startswith(_LOST))


def nothing_there(error: Exception) -> bool:
    """Whether there are no views: their schema or their catalog is missing."""
    return getattr(error, "sqlstate", None) in _NOTHING


@contextmanager
def reading(where: object, table: str | None = None) -> Iterator[None]:
    """Errors of reads are a `QueryError`."""
    errors = client().Error
    try:
        yield
    except errors as error:
        what = "view" if table else "views"
        raise QueryError(
            f"cannot read the {what}: {_text(error)}",
            reason="bad_request" if (error.sqlstate or "").startswith(_ASKED) else "not_ready",
            where=table or where,
            hint=_advice(error),
        ) from error


@contextmanager
def writing(where: object, table: str | None = None, batch: int | None = None) -> Iterator[None]:
    """Errors of writes are a `RunError`: a `HomeUnusable` if the server can't be reached."""
    errors = client().Error
    try:
        yield
    except KeyfoldError as error:
        if type(error) is RunError and error.where is None and table:
            raise RunError(error.what, given=error.given, hint=error.hint, table=table, batch=batch) from None
        raise
    except errors as error:
        what = f"cannot write the {'view' if table else 'views'}: {_text(error)}"
        if lost(error):
            raise HomeUnusable(what, where=where, hint=_advice(error), table=table, batch=batch) from error
        place = None if table else where
        raise RunError(what, where=place, hint=_advice(error), table=table, batch=batch) from error
    except (pa.ArrowException, OSError) as error:
        raise RunError(f"cannot write the view: {error}", table=table, batch=batch) from error


def altered(what: str, where: object) -> RunError:
    """The error of a table that is not as keyfold has made it."""
    return RunError(f"the view's table {ALTERED}: {what}", where=where, hint=RECOVERY)


def _text(error: psycopg.Error) -> str:
    state = error.sqlstate
    # The details of an error have values of rows.
    text = error.diag.message_primary if state else " ".join(str(error).split())
    return mask(f"{text or type(error).__name__}{f', and {ALTERED}' if _is(error, _CHANGED) else ''}")


def _is(error: psycopg.Error, states: tuple[str, ...]) -> bool:
    return error.sqlstate in states


def _advice(error: psycopg.Error) -> str | None:
    if lost(error):
        return _connecting(str(error))
    if _is(error, _CHANGED):
        return RECOVERY
    if _is(error, _LOCKED):
        return "another session holds the table: end it (pg_stat_activity shows it), and start again"
    if _is(error, _DEPENDENT):
        needs = (error.diag.message_detail or "").replace("\n", "; ")
        return f"drop what depends on the table, and create it again afterwards. {needs}"
    if _is(error, _FORBIDDEN):
        return "`keyfold views ddl` prints the schema and the rights that the role needs"
    if _is(error, _DAMAGED):
        return "restore the database from a backup; or drop the table as follows: " + RECOVERY
    if error.sqlstate == "54000":
        return (
            "PostgreSQL's indexes take keys of up to 2,700 bytes; keep views with longer ones in a local file"
        )
    return None


def _connecting(text: str) -> str:
    if "password" in text or "pg_hba" in text or "authentication" in text:
        return (
            "the password: in KEYFOLD_VIEWS, in PGPASSWORD, or in ~/.pgpass; who may connect: pg_hba.conf of "
            "the server"
        )
    if "does not exist" in text:
        return "create it (createdb, createuser), or name another one in KEYFOLD_VIEWS"
    if "too many" in text or "remaining connection slots" in text:
        return "raise max_connections of the server, or end other sessions"
    return "start the server, or check host and port in KEYFOLD_VIEWS; then try again: nothing is lost"
