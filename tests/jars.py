"""Jars that only tests need: fetched once by the resolver that comes with Spark, and checked by a digest."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pyspark

from keyfold.kernel import build
from tests.conftest import missing

SPARK = Path(pyspark.__file__).parent / "jars"


def fetched(what: str, modules: Mapping[str, str]) -> list[Path]:
    """The jars of these modules, `group:name:version`, without those that they depend on.

    Each with the first digits of its content's SHA-256: what is fetched is what was looked at.
    """
    place = build.writable(build.cache_places(None)) / what
    return [_fetched(what, module, digest, place) for module, digest in modules.items()]


def _fetched(what: str, module: str, digest: str, place: Path) -> Path:
    _, name, version = module.split(":")
    jar = place / f"{name}-{version}.jar"
    place.mkdir(parents=True, exist_ok=True)
    # Ivy does not expect another process in its cache.
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _fetch(what, module, jar)
    with jar.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest().startswith(digest), jar
    return jar


def _fetch(what: str, module: str, jar: Path) -> None:
    place = jar.parent
    if not jar.is_file():
        ivy = next(SPARK.glob("ivy-*.jar"))
        wanted = ["-dependency", *module.split(":"), "-confs", "default", "-notransitive"]
        kept = ["-cache", str(place / "ivy"), "-retrieve", str(place / "[artifact]-[revision].[ext]")]
        command = [build.java(), "-jar", str(ivy), *wanted, *kept]
        done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
        if done.returncode or not jar.is_file():
            missing(f"{what}, of which Ivy could not fetch {module}: {done.stdout[-500:]}")
