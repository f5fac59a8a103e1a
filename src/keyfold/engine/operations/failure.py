"""The error of a command that fails before its switch."""

from __future__ import annotations

from typing import Final

from keyfold.errors import RunError

_FULL: Final = "No space left on device"


def command_error(what: str, error: Exception) -> RunError:
    """The error of a command that has changed nothing, with the message of Spark or the system."""
    from keyfold.engine.spark_messages import plain

    if _FULL in str(error):
        given, hint = "no space left on the disk", "free some space, and run the command again"
    else:
        given, hint = plain(str(error)).splitlines()[0][:300], "spark.log has more"
    return RunError(f"{what}; nothing was changed", given=given, hint=hint)
