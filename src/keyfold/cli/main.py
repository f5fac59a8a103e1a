"""How a command ends: its exit code, and what is said of an error.

| exit | when |
|---|---|
| 0 | done |
| 1 | a failure, or a key that isn't there |
| 2 | the user's mistake: a wrong declaration, option, name or filter |
| 130, 143 | ended by SIGINT or SIGTERM before it was done |

An error is text on stderr; with `--json` it is also the one document on stdout.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TextIO

from keyfold.errors import DeclarationError, KeyfoldError, QueryError


class Interrupted(Exception):
    """A signal ended the command before it was done."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number


class NoSuchKey(QueryError):
    """A key that isn't there: an answer, where an unknown name is a mistake."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line; whatever happens becomes an exit code and a text."""
    given = list(sys.argv[1:] if argv is None else argv)
    flags = given[: given.index("--")] if "--" in given else given
    debug = "--debug" in flags
    # Taken where it stands, since "run again with --debug" makes people add it at the end.
    given = [*(flag for flag in flags if flag != "--debug"), *given[len(flags) :]]
    _never_fail_on_characters(sys.stdout, sys.stderr)
    try:
        return _call(given or ["--help"])
    except BrokenPipeError:
        return _reader_has_gone()
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
    """Whether stdout is to have a document. Asked of the words, since these may be what is wrong."""
    return "--json" in flags or "--format=json" in flags or ("--format", "json") in pairwise(flags)


def code_of(error: BaseException) -> int:
    """The exit code for an error."""
    if isinstance(error, Interrupted):
        return 128 + error.number
    if isinstance(error, NoSuchKey):
        return 1
    if isinstance(error, QueryError):
        return 2 if error.reason in ("bad_request", "not_found") else 1
    return 2 if isinstance(error, DeclarationError) or _usage(error) else 1


def document(error: BaseException) -> dict[str, Any]:
    """The error as data."""
    if _usage(error):
        return {"kind": "UsageError", "text": _usage(error)}
    if isinstance(error, QueryError):
        return {"kind": "QueryError", "reason": error.reason, "text": text_of(error)}
    return {"kind": type(error).__name__, "text": text_of(error)}


def text_of(error: BaseException) -> str:
    """What is said of an error; keyfold's own errors say it themselves."""
    if isinstance(error, KeyfoldError | Interrupted):
        return str(error)
    if usage := _usage(error):
        return f"{usage}\n  try: {_help_command(error)}"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" for {error.filename}" if error.filename else ""
        return f"no space left on the disk{where}\n  try: free some and start again; nothing is lost"
    first = next(iter(str(error).splitlines()), "")
    what = f"{type(error).__name__}: {first}" if first else type(error).__name__
    return f"keyfold failed: {what} (run again with --debug for the trace)"


def tell(error: BaseException, as_json: bool) -> None:
    """Says what went wrong, on stderr and for programs."""
    from keyfold.cli import output

    output.error(text_of(error))
    if as_json:
        output.json_document({"error": document(error)})
        sys.stdout.flush()


def _usage(error: BaseException) -> str | None:
    """What Typer says of a wrong command line; known by its shape, since the class moves between versions."""
    words = getattr(error, "format_message", None)
    return str(words()).strip() if callable(words) else None


def _help_command(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context is not None else 'keyfold'} --help"


def _never_fail_on_characters(*streams: TextIO) -> None:
    """A terminal that lacks a character shows its code instead of ending the command."""
    for stream in streams:
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")


def _reader_has_gone() -> int:
    """Whoever read our output has enough, as `head` does; Python would complain when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
