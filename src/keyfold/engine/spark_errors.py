"""Errors of the JVM in the user's terms: what is wrong with one expression, and the causes of an exception.

The kernel's own errors are known by a code, Spark's by a condition. Where there is neither, `spark_messages`
has the patterns of texts.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keyfold.engine.jvm.process import is_java_end
from keyfold.engine.spark_messages import plain
from keyfold.errors import BadExpression, KeyfoldError, near
from keyfold.kernel.api import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NeedsClock(Exception):
    """An expression reads the batch's timestamp, which the rows do not have yet."""


@dataclass(frozen=True)
class KernelError:
    """An error of the kernel's own."""

    code: ErrorCode
    payload: Mapping[str, str]


def kernel_error(error: Any) -> KernelError | None:
    """The kernel's own error among an exception and its causes in the JVM."""
    for java in _causes(getattr(error, "thrown", None) or _java(error)):
        code = None
        with suppress(Exception):  # only Spark's exceptions have a condition
            code = java.getCondition()
        if code in set(ErrorCode):
            return KernelError(ErrorCode(code), dict(java.getMessageParameters()))
    return None


def ended_by(query: Any) -> Any:
    """The exception that ended a query, if one did; PySpark keeps only the texts of Java's exceptions.

    `thrown` is what `kernel_error` looks at.
    """
    error = query.exception()
    if error is not None:
        error.thrown = query._jsq.exception().get()
    return error


def _java(error: Any) -> Any:
    """The exception in the JVM that PySpark or Py4J has made an exception of."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def _causes(java: Any) -> Iterator[Any]:
    while java is not None:
        yield java
        java = java.getCause()


@contextmanager
def explain_errors(spark: SparkSession, what: str, where: str, given: str) -> Iterator[None]:
    """Turns an error of Spark or the kernel about one expression into a `BadExpression` that names it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    # PySpark also prints each of these errors as a line of JSON.
    logger = logging.getLogger("SQLQueryContextLogger")
    logger.disabled = True
    try:
        yield
    except PySparkException as error:
        if _condition(error) == ErrorCode.NEEDS_CLOCK:
            raise NeedsClock from None
        raise BadExpression(
            f"{what}: {_reason(error)}", where=where, given=given, hint=_hint(spark, error)
        ) from None
    except Py4JJavaError as error:
        raise BadExpression(
            f"{what}: {plain(str(error.java_exception.getMessage()))}", where=where, given=given
        ) from None
    except (KeyfoldError, NeedsClock):
        raise
    except Exception as error:
        if is_java_end(error):
            raise
        raise BadExpression(
            f"{what}: the function raised {type(error).__name__}: {error}", where=where, given=given
        ) from error
    finally:
        logger.disabled = False


def messages(error: Any) -> list[str]:
    """The messages of an exception and its causes in the JVM, outermost first."""
    return [str(java.getMessage() or java.toString()) for java in _causes(_java(error))] or [str(error)]


def causes(error: Any) -> str:
    """An exception of the JVM and its causes with their classes, one per line; empty for other exceptions."""
    return "\n".join(str(java.toString()) for java in _causes(_java(error)))


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
