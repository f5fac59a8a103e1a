"""Jars beside Spark's own: from a pinned list with checksums, fetched by Spark's own resolver, and cached."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from xml.sax.saxutils import quoteattr

from keyfold.engine.storage.files import replace_file
from keyfold.errors import JarsMissing
from keyfold.kernel import build
from keyfold.settings import Settings

IVY_SETTINGS: Final = "spark.jars.ivySettings"
_SECONDS: Final = 270


@dataclass(frozen=True)
class Jar:
    """One jar of a list: `group:name:version`, and the SHA-256 of its content."""

    module: str
    digest: str

    @property
    def file(self) -> str:
        """Its file name in the cache."""
        _, name, version = self.module.split(":")
        return f"{name}-{version}.jar"


def read_list(file: Path) -> list[Jar]:
    """The jars of a list: lines of a checksum and a module."""
    lines = (line.split() for line in file.read_text("ascii").splitlines())
    return [Jar(module, digest) for digest, module in lines]


def find_cached(jars: list[Jar], settings: Settings) -> list[Path] | None:
    """The jars where they were fetched before, or put by hand; None if one is missing or differs."""
    for place in build.cache_places(settings.kernel_dir):
        found = place / "jars"
        # As for the kernel: code in another user's directory is not loaded.
        if not found.is_dir() or found.stat().st_uid != os.getuid():
            continue
        if all(_intact(found / jar.file, jar) for jar in jars):
            return [found / jar.file for jar in jars]
    return None


def fetch(what: str, jars: list[Jar], settings: Settings) -> list[Path]:
    """The jars, from the cache or fetched now; `what` names them in an error."""
    found = find_cached(jars, settings)
    if found is not None:
        return found
    place = build.writable(build.cache_places(settings.kernel_dir)) / "jars"
    place.mkdir(mode=0o700, exist_ok=True)
    missing = [jar for jar in jars if not _intact(place / jar.file, jar)]
    with TemporaryDirectory(dir=place, prefix=".fetch-") as work:
        printed = _resolve(missing, Path(work), settings)
        for jar in missing:
            file = Path(work) / jar.file
            if not file.is_file():
                raise _unavailable(what, missing, place, printed)
            if not _intact(file, jar):
                raise _other(what, jar, place)
            replace_file(place / jar.file, file.read_bytes(), durable=False)
    return [place / jar.file for jar in jars]


def _intact(file: Path, jar: Jar) -> bool:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == jar.digest
    except OSError:
        return False


def _resolve(jars: list[Jar], work: Path, settings: Settings) -> str:
    """Runs the resolver, which puts what it finds into `work`; returns what it prints."""
    wanted = work / "ivy.xml"
    wanted.write_text(_module_file(jars), "utf-8")
    resolver = next((build.spark_home() / "jars").glob("ivy-*.jar"))
    own = settings.spark.get(IVY_SETTINGS)
    command = [
        *(build.java(), "-jar", str(resolver)),
        *(("-settings", own) if own else ()),
        *("-ivy", str(wanted), "-confs", "default", "-cache", str(work / "ivy")),
        *("-retrieve", str(work / "[artifact]-[revision].[ext]")),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer within {_SECONDS} s"
    return done.stdout + done.stderr


def _module_file(jars: list[Jar]) -> str:
    """What the resolver reads: each jar alone, since the list has all that they depend on."""
    lines = [
        '<ivy-module version="2.0"><info organisation="keyfold" module="jars"/>',
        '<configurations><conf name="default"/></configurations><dependencies>',
    ]
    for jar in jars:
        group, name, version = (quoteattr(part) for part in jar.module.split(":"))
        where = f"org={group} name={name} rev={version}"
        lines.append(f'<dependency {where} conf="default-&gt;default" transitive="false"/>')
    return "\n".join([*lines, "</dependencies></ivy-module>"])


def _unavailable(what: str, jars: list[Jar], place: Path, printed: str) -> JarsMissing:
    reasons = [line.strip() for line in printed.splitlines() if "Exception" in line or "not found" in line]
    names = ", ".join(jar.module for jar in jars)
    return JarsMissing(
        f"the jars of {what} are missing, and could not be downloaded",
        given=(reasons or printed.strip().splitlines() or ["no output of the resolver"])[-1],
        hint="download them on a machine with a network, from Maven Central or your mirror "
        f"({IVY_SETTINGS} names its settings file), and put them into {place}: {names}",
    )


def _other(what: str, jar: Jar, place: Path) -> JarsMissing:
    return JarsMissing(
        f"a jar of {what} does not match its pinned checksum",
        given=f"{jar.module}, whose SHA-256 is not {jar.digest}",
        hint=f"check the repository it came from, or put the right {jar.file} into {place}",
    )
