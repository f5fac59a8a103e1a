"""How Spark's settings reach the JVM that is started for them.

PySpark would put each on the command line, where every user of the machine can read it. They go through a
file instead, which is private and gone when the JVM is up.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from keyfold import private
from keyfold.engine.jvm.scratch import Scratch

_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"


@contextmanager
def submitting(wanted: Mapping[str, str], scratch: Scratch) -> Iterator[None]:
    """A JVM that PySpark starts meanwhile has the settings, and its temporary files in the scratch place."""
    file = scratch.path / "spark.properties"
    private.write(file, properties({**_places(wanted, scratch), **_options(wanted, scratch)}).encode("ascii"))
    before = os.environ.get(_ARGUMENTS)
    # Spark's defaults and what the user has in the variable count as before.
    os.environ[_ARGUMENTS] = f"--extra-properties-file {shlex.quote(str(file))} {before or 'pyspark-shell'}"
    try:
        yield
    finally:
        os.environ.pop(_ARGUMENTS) if before is None else os.environ.update({_ARGUMENTS: before})
        file.unlink(missing_ok=True)


def _places(wanted: Mapping[str, str], scratch: Scratch) -> dict[str, str]:
    """Of Spark's own files; executors on other machines have places of their own."""
    return {"spark.local.dir": str(scratch.path)} if wanted["spark.master"].startswith("local") else {}


def _options(wanted: Mapping[str, str], scratch: Scratch) -> dict[str, str]:
    """The settings, with a place for what Java unpacks and loads: a file system may forbid the loading."""
    if not scratch.runs_code:
        return dict(wanted)
    place = str(scratch.path).replace("\\", "\\\\").replace('"', '\\"')
    return {**wanted, JAVA_OPTIONS: f'-Djava.io.tmpdir="{place}" {wanted.get(JAVA_OPTIONS, "")}'.strip()}


def properties(settings: Mapping[str, str]) -> str:
    """The settings as a file of Java's, which has escapes for all but plain characters.

    >>> properties({"spark.a b": "1=é"})
    'spark.a\\\\u0020b=1\\\\u003d\\\\u00e9\\n'
    """
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in settings.items())


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    found = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(
        chr(u) if u < 128 and (chr(u).isalnum() or chr(u) in ".-_/,") else f"\\u{u:04x}" for u in found
    )
