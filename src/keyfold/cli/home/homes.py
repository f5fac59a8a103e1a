"""Opens homes for commands: on a local disk without a JVM, elsewhere through Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyfold.engine.storage.contract import Storage
    from keyfold.read import AppReader, HomeReader
    from keyfold.settings import Settings


def is_elsewhere(home: str | None) -> bool:
    """Whether the home is not on a local disk, so that only Spark can open it."""
    address = home or os.environ.get("KEYFOLD_HOME") or ""
    return "://" in address and not address.startswith("file:")


@contextmanager
def opened_home(home: str | None) -> Iterator[HomeReader]:
    """A home with its logs and state. One elsewhere is opened through Spark, which takes some seconds."""
    from keyfold.read import open_home
    from keyfold.settings import load

    if not is_elsewhere(home):
        with open_home(home) as reader:
            yield reader
        return
    with remote_storage(load(home=home)) as storage, open_home(home, storage=storage) as reader:
        yield reader


@contextmanager
def opened_app(name: str, home: str | None, *, any_files: bool = False) -> Iterator[tuple[AppReader, str]]:
    """An app with its logs and state, and the table or stream that a name means in it.

    `any_files`: also an app of which nothing is left but files of tables.
    """
    with opened_home(home) as reader:
        yield reader.find(name, any_files=any_files)


@contextmanager
def remote_storage(settings: Settings) -> Iterator[Storage]:
    """A home that is not on a local disk, in a Spark of its own that ends with this command."""
    from keyfold.cli import output
    from keyfold.engine import session
    from keyfold.engine.jvm import process
    from keyfold.engine.recovery import remote_home
    from keyfold.engine.storage.remote import SparkStorage

    output.say(f"opening {settings.home} through Spark")
    # The cluster is for the app; its files can be read from here.
    own = settings.model_copy(update={"master": "local[1]"})
    with process.ending_java(), remote_home.explain_errors(str(settings.home)):
        spark = session.own_session(own, alone=True)
        yield SparkStorage(session.kernel(spark), spark, str(settings.home))
