"""Runs a command line; an error becomes a text and an exit code.

| exit | when |
|---|---|
| 0 | done |
| 1 | a failure, or a key that does not exist |
| 2 | an error of the user: a wrong declaration, option, name or filter |
| 3 | another process holds the home: the app is running, or a command works on it |
| 130, 143 | ended by SIGINT or SIGTERM before it was complete |

An error is text on stderr; with `--json` it is also the one document on stdout.
"""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, TextIO

from keyfold.errors import DeclarationError, HomeLocked, KeyfoldError, QueryError


class Interrupted(Exception):
    """A signal ended the command before it was complete."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number


class NoSuchKey(QueryError):
    """A key that does not exist: an answer, while an unknown name is an error of the user."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code; errors are printed."""
    given = list(sys.argv[1:] if argv is None else argv)
    flags = given[: given.index("--")] if "--" in given else given
    debug = "--debug" in flags
    # Accepted anywhere, since "run again with --debug" makes people add it at the end.
    given = [*(flag for flag in flags if flag != "--debug"), *given[len(flags) :]]
    _escape_unprintable(sys.stdout, sys.stderr)
    if argv is None:
        atexit.register(_leave)
    code = _ran(given, flags, debug)
    if argv is None and code > 128:
        _exit_codes.append(code)
    return code


# Exit codes of a command that a signal ended, for `_leave`.
_exit_codes: list[int] = []


def _leave() -> None:
    """Ends the process with the code of an interrupted command. Registered first, it runs last.

    Python itself ends by SIGINT, whatever the exit code, if an interrupt once came while a module was
    creating a class from text, as dataclasses do: it takes the interrupt for one that nobody has handled.
    """
    if _exit_codes:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(_exit_codes[-1])


def _ran(given: list[str], flags: list[str], debug: bool) -> int:
    try:
        return _call(given or ["--help"])
    except BrokenPipeError:
        return _pipe_closed()
    except KeyboardInterrupt:
        # Between the steps of a command that handle it themselves.
        return 128 + signal.SIGINT
    except Exception as error:
        if debug:
            import traceback

            traceback.print_exc()
        tell(error, wants_json(flags))
        return code_of(error)


def _call(given: list[str]) -> int:
    import typer

    from keyfold.cli.registry import app

    command: Any = typer.main.get_command(app)
    result = command.main(args=given, prog_name="keyfold", standalone_mode=False)
    sys.stdout.flush()
    return result if isinstance(result, int) else 0


def wants_json(flags: Sequence[str]) -> bool:
    """Whether stdout is to have a JSON document; read here, since parsing may have failed."""
    return "--json" in flags or "--format=json" in flags or ("--format", "json") in pairwise(flags)


def code_of(error: BaseException) -> int:
    """The exit code for an error."""
    if isinstance(error, Interrupted):
        return 128 + error.number
    if isinstance(error, NoSuchKey):
        return 1
    if isinstance(error, QueryError):
        return 2 if error.reason in ("bad_request", "not_found") else 1
    if isinstance(error, HomeLocked):
        return 1 if error.passes else 3
    return 2 if isinstance(error, DeclarationError) or _usage(error) else 1


def document(error: BaseException) -> dict[str, Any]:
    """The error as data."""
    if _usage(error):
        return {"kind": "UsageError", "text": _usage(error)}
    if isinstance(error, QueryError):
        return {"kind": "QueryError", "reason": error.reason, "text": text_of(error)}
    return {"kind": type(error).__name__, "text": text_of(error)}


def text_of(error: BaseException) -> str:
    """The text of an error; keyfold's own errors have all parts of it."""
    if isinstance(error, KeyfoldError | Interrupted):
        return str(error)
    if usage := _usage(error):
        return "\n".join([usage, *_given_value(error), f"  try: {_help_command(error)}"])
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" for {error.filename}" if error.filename else ""
        return f"no space left on the disk{where}\n  try: free some space and start again; no data is lost"
    first = next(iter(str(error).splitlines()), "")
    what = f"{type(error).__name__}: {first}" if first else type(error).__name__
    return f"keyfold failed: {what} (run again with --debug for the traceback)"


def tell(error: BaseException, as_json: bool) -> None:
    """Prints an error on stderr and, for programs, as JSON on stdout."""
    from keyfold.cli import output

    output.error(text_of(error))
    if as_json:
        output.json_document({"error": document(error)})
        sys.stdout.flush()


def _usage(error: BaseException) -> str | None:
    """Typer's message for a wrong command line; by its shape, since the class moves between versions."""
    words = getattr(error, "format_message", None)
    if not callable(words):
        return None
    # Typer converts numbers with pydantic, whose messages are about an "input" and how it was parsed.
    return str(words()).strip().replace("Input should be", "must be").split(", unable to parse")[0]


def _given_value(error: BaseException) -> list[str]:
    """The value that pydantic refused."""
    found = getattr(error.__cause__, "errors", None)
    return [f"  given: {found()[0]['input']}"] if callable(found) else []


def _help_command(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context is not None else 'keyfold'} --help"


def _escape_unprintable(*streams: TextIO) -> None:
    """Characters that a terminal lacks are shown as escapes instead of ending the command."""
    for stream in streams:
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")


def _pipe_closed() -> int:
    """The reader has closed the pipe, as `head` does; Python would complain when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
