"""Spark's errors in the user's terms."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from keyfold.engine.jvm.process import lost
from keyfold.engine.storage import damage
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.errors import BadExpression, KeyfoldError, QueryFailed, near
from keyfold.views.sqlite import connections

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_FULL = re.compile(r"No space left on device|disk is full|Disk quota exceeded", re.IGNORECASE)
_WRAPPERS = ("[STREAM_FAILED]", "[FOREACH_BATCH_USER_FUNCTION_ERROR]", "[TASK_WRITE_FAILED]")


@contextmanager
def explained(spark: SparkSession, what: str, where: str, given: str) -> Iterator[None]:
    """Turns what Spark or the kernel says of one expression into an error that names it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    # PySpark prints each of these as a line of JSON too.
    logger = logging.getLogger("SQLQueryContextLogger")
    logger.disabled = True
    try:
        yield
    except PySparkException as error:
        raise BadExpression(
            f"{what}: {_words(error)}", where=where, given=given, hint=_advice(spark, error)
        ) from None
    except Py4JJavaError as error:
        raise BadExpression(
            f"{what}: {plain(str(error.java_exception.getMessage()))}", where=where, given=given
        ) from None
    except KeyfoldError:
        raise
    except Exception as error:
        if lost(error):
            raise
        raise BadExpression(
            f"{what}: the function raised {type(error).__name__}: {error}", where=where, given=given
        ) from error
    finally:
        logger.disabled = False


def plain(text: str) -> str:
    """Spark's first sentence, without error class, SQLSTATE and plan."""
    first = next((line for line in text.strip().splitlines() if line.strip()), "Spark gave no reason")
    return re.sub(r"^(\S+Exception: )?\[[A-Z_.0-9]+\]\s*|\s*SQLSTATE: \w+.*$", "", first)


def _parameters(error: Any) -> dict[str, str]:
    try:
        return dict(error.getMessageParameters() or {})
    except Exception:  # an exception of Spark's without parameters
        return {}


def _condition(error: Any) -> str:
    return str(error.getCondition() or "")


def _words(error: Any) -> str:
    condition, known = _condition(error), _parameters(error)
    if condition.startswith("UNRESOLVED_COLUMN."):
        return f"there is no column {known.get('objectName', '?')}"
    if condition == "UNRESOLVED_ROUTINE":
        return f"there is no function {known.get('routineName', '?')}"
    if condition == "PARSE_SYNTAX_ERROR":
        return f"not a Spark SQL expression: near {known.get('error', '?')}"
    if condition.startswith("MISSING_AGGREGATION") or condition == "UNRESOLVED_AGGREGATE":
        return "no aggregate: say how the rows of a key become one value, as in max(...)"
    return plain(str(error))


def _advice(spark: SparkSession, error: Any) -> str | None:
    condition, known = _condition(error), _parameters(error)
    if condition.startswith("UNRESOLVED_COLUMN."):
        return f"one of {known['proposal']}" if known.get("proposal") else None
    if condition == "AMBIGUOUS_REFERENCE":
        return f"one of {known['referenceNames'].strip('[]')}" if known.get("referenceNames") else None
    if condition == "UNRESOLVED_ROUTINE":
        name = re.sub(r".*\.|`", "", known.get("routineName", ""))
        found = near(name, _functions(spark))
        return f"{found} (did you mean {found!r}?)" if found else "a function that Spark has"
    return None


def _functions(spark: Any) -> list[str]:
    names = spark._jsparkSession.sessionState().functionRegistry().listFunction()
    return [names.apply(i).funcName() for i in range(names.size())]


def failed(app: str, table: str, batch: int | None, error: Any, home: Path) -> QueryFailed:
    """Why a query stopped, without Java's trace."""
    text = _innermost(error)
    stopped = partial(QueryFailed, app=app, table=table, batch=batch)
    place = AppHome(home / app)
    bad = re.search(r"\[KEYFOLD_BAD_ROW\] (.*?); row: (.*)", text)
    if bad:
        return stopped(
            f"a row can't be used, and on_error is 'fail': {bad[1]}",
            given=bad[2],
            hint="correct the row, or let on_error='reject' keep it aside",
        )
    if _FULL.search(text) or _FULL.search(str(error)):
        return stopped(
            f"no space left on the disk of {home}",
            hint="free some and start again; the batch is taken up again, nothing is lost or counted twice",
        )
    if connections.damaged(text):
        return stopped(
            f"the views of {app} are damaged: {plain(text)}",
            given=place.views,
            hint=connections.RECOVERY,
        )
    found = _damage(place.table(table), error, text)
    if found is not None:
        return stopped(
            f"the state of {app}.{table} is damaged: {_below(found.file, place.path)} {found.how}",
            given=found.file,
            hint=damage.way_out(app, table, place.table(table), found),
        )
    about_file = _about_file(text, _chain(error)[-1])
    if about_file:
        what, given, hint = about_file
        if given.startswith(f"{place.path}/"):
            hint = f"bring it back from a backup of the home; or `keyfold reset {app}.{table}`"
        return stopped(what, given=given, hint=hint)
    return stopped(
        f"the query of table {table} stopped: {_cause(error, text)}",
        given=_fragment(text),
        hint="the next start takes this batch up again; nothing is lost or counted twice. "
        f"Spark's own words are in {home / 'spark.log'}",
    )


@contextmanager
def of_table(app: str, table: str, home: TableHome) -> Iterator[None]:
    """What Spark says while a table is started, as `failed` says it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise failed(app, table, home.begun(), error, home.path.parents[2]) from None


def _damage(home: TableHome, error: Any, text: str) -> damage.Damage | None:
    from pyspark import SparkContext

    trace = getattr(getattr(error, "_cause", None), "_stackTrace", None)
    return damage.found_in(home, f"{text}\n{error}", str(trace), SparkContext._jvm)


def _below(file: Path, place: Path) -> Path:
    return file.relative_to(place) if file.is_relative_to(place) else file


def _about_file(text: str, last: str) -> tuple[str, str, str] | None:
    """What is wrong with an input file that stopped a query, which, and what to do; None for other causes."""
    gone = re.search(r"\[KEYFOLD_MISSING_FILES\] (.*)", text, re.DOTALL)
    found = re.search(r"\[FAILED_READ_FILE\.(\w+)\] .*? reading file (\S.*?)\.(?:\s|$)", text)
    kind = found[1] if found else ""
    if gone or (kind == "FILE_NOT_EXIST" and "Permission denied" not in last):
        # Spark adds its plan below the words of an error.
        names = gone[1].split("\n===")[0].strip().splitlines() if gone else [found[2]] if found else []
        return (
            "input files of this batch are missing",
            "\n".join(_as_written(name) for name in names),
            "bring them back and start again: the batch goes on with them. To go on without them, keyfold "
            "run APP.py --set missing_files=skip, which lists them with the rejected rows",
        )
    if found and kind in ("FILE_NOT_EXIST", "NO_HINT", "CANNOT_READ_FILE_FOOTER"):
        return (
            f"an input file can't be read: {plain(last)}",
            _as_written(found[2]),
            "replace it by a good file of the same name and start again: the batch goes on with it, nothing "
            "is lost or counted twice. Or take it away, and go on without it by --set missing_files=skip",
        )
    return None


def _as_written(url: str) -> str:
    """A file of this machine by its path."""
    parts = urlsplit(url.strip())
    return unquote(parts.path) if parts.scheme == "file" else url.strip()


def _innermost(error: Any) -> str:
    """The words of the last cause in the JVM's chain that has an error class, or of the last at all."""
    chain = _chain(error)
    telling = [
        text for text in chain if re.match(r"\[[A-Z][A-Z_.0-9]+\]", text) and not text.startswith(_WRAPPERS)
    ]
    return (telling or chain)[-1]


def _chain(error: Any) -> list[str]:
    """The words of all causes, the outermost first."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    found = [] if java is not None else [str(error)]
    while java is not None:
        found.append(str(java.getMessage() or java.toString()))
        java = java.getCause()
    return found


def _cause(error: Any, text: str) -> str:
    """The innermost sentence with one of Spark's error classes, or the first line."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if isinstance(error, KeyfoldError):
        return str(error)
    if not isinstance(error, PySparkException | Py4JJavaError):
        return f"{type(error).__name__}: {error}"
    worker = re.findall(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)+(\S[^\n]*)", text)
    if worker:
        return f"a Python function of the app's raised {worker[-1]}"
    found = re.findall(r"\[([A-Z][A-Z_.0-9]+)\] ([^\n]+)", text)
    inner = [sentence for name, sentence in found if f"[{name}]" not in _WRAPPERS]
    # The kernel is a StatefulProcessor to Spark; what a row is to blame for never gets here.
    own = re.search(r"\[TRANSFORM_WITH_STATE_USER_FUNCTION_ERROR\].*? Reason: ([^\n]+)", text)
    if own:
        return f"keyfold's kernel or its state store failed, no row is at fault: {own[1].rstrip('.')}"
    return plain(inner[-1]) if inner else plain(text)


def _fragment(text: str) -> str | None:
    """The user's expression that Spark quotes, if it does."""
    found = re.search(r"== (?:SQL|DataFrame)[^\n]*==\n(.+)\n", text)
    return found[1].strip() if found else None
