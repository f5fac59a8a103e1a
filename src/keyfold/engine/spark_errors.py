"""Spark's errors in the user's terms: what is wrong with one expression, and the causes of an exception."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from keyfold.engine.jvm.process import is_java_end
from keyfold.errors import BadExpression, KeyfoldError, near

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def explained(spark: SparkSession, what: str, where: str, given: str) -> Iterator[None]:
    """Turns an error of Spark or the kernel about one expression into a `BadExpression` that names it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    # PySpark also prints each of these errors as a line of JSON.
    logger = logging.getLogger("SQLQueryContextLogger")
    logger.disabled = True
    try:
        yield
    except PySparkException as error:
        raise BadExpression(
            f"{what}: {_reason(error)}", where=where, given=given, hint=_hint(spark, error)
        ) from None
    except Py4JJavaError as error:
        raise BadExpression(
            f"{what}: {plain(str(error.java_exception.getMessage()))}", where=where, given=given
        ) from None
    except KeyfoldError:
        raise
    except Exception as error:
        if is_java_end(error):
            raise
        raise BadExpression(
            f"{what}: the function raised {type(error).__name__}: {error}", where=where, given=given
        ) from error
    finally:
        logger.disabled = False


def plain(text: str) -> str:
    """The first sentence of Spark's message, without error class, SQLSTATE and plan."""
    first = next((line for line in text.strip().splitlines() if line.strip()), "Spark gave no reason")
    return re.sub(r"^(\S+Exception: )?\[[A-Z_.0-9]+\]\s*|\s*SQLSTATE: \w+.*$", "", first)


def messages(error: Any) -> list[str]:
    """The messages of an exception and its causes in the JVM, outermost first."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    found = [] if java is not None else [str(error)]
    while java is not None:
        found.append(str(java.getMessage() or java.toString()))
        java = java.getCause()
    return found


def causes(error: Any) -> str:
    """An exception of the JVM and its causes with their classes, one per line; empty for other exceptions."""
    java, found = getattr(error, "java_exception", None) or getattr(error, "_origin", None), []
    while java is not None:
        found.append(str(java.toString()))
        java = java.getCause()
    return "\n".join(found)


def _parameters(error: Any) -> dict[str, str]:
    try:
        return dict(error.getMessageParameters() or {})
    except Exception:  # some of Spark's exceptions have no parameters
        return {}


def _condition(error: Any) -> str:
    return str(error.getCondition() or "")


def _reason(error: Any) -> str:
    condition, known = _condition(error), _parameters(error)
    if condition.startswith("UNRESOLVED_COLUMN."):
        return f"there is no column {known.get('objectName', '?')}"
    if condition == "UNRESOLVED_ROUTINE":
        return f"there is no function {known.get('routineName', '?')}"
    if condition == "PARSE_SYNTAX_ERROR":
        return f"not a Spark SQL expression: near {known.get('error', '?')}"
    if condition.startswith("MISSING_AGGREGATION") or condition == "UNRESOLVED_AGGREGATE":
        return "not an aggregate: it must turn the rows of a key into one value, as max(...) does"
    return plain(str(error))


def _hint(spark: SparkSession, error: Any) -> str | None:
    condition, known = _condition(error), _parameters(error)
    if condition.startswith("UNRESOLVED_COLUMN."):
        return f"one of: {known['proposal']}" if known.get("proposal") else None
    if condition == "AMBIGUOUS_REFERENCE":
        return f"one of: {known['referenceNames'].strip('[]')}" if known.get("referenceNames") else None
    if condition == "UNRESOLVED_ROUTINE":
        name = re.sub(r".*\.|`", "", known.get("routineName", ""))
        found = near(name, _functions(spark))
        return f"did you mean {found!r}?" if found else "a built-in function of Spark SQL"
    return None


def _functions(spark: Any) -> list[str]:
    names = spark._jsparkSession.sessionState().functionRegistry().listFunction()
    return [names.apply(i).funcName() for i in range(names.size())]
