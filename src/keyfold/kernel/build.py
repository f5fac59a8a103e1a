"""Compiles the kernel once and caches the jar.

PySpark's own jars contain the Scala compiler, so a Java runtime is all that is needed. The jar is named after
a hash of the sources and Spark's version: another version of either is another file, and a stale jar can't be
taken for a new one. It is written aside and renamed, so that two processes may build at once; the later
rename wins with equal content.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from keyfold.errors import JavaMissing, KernelBuildFailed

SOURCES = Path(__file__).parent
LOWEST_JAVA = 17
# The compiler is gone before Java's optimising compiler has paid for itself: half of the time without it.
COMPILER_OPTIONS = ("-Xss8m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def kernel_jar(cache: Path | None = None, building: Callable[[], None] | None = None) -> Path:
    """The kernel's jar for the installed Spark: shipped, cached, or built now, which `building` is told."""
    found = find_jar(cache)
    if found is not None:
        return found
    home = writable(cache_places(cache))
    if building:
        building()
    return build(home / jar_name())


def find_jar(cache: Path | None = None) -> Path | None:
    """The kernel's jar where it was shipped or built before."""
    shipped, name = SOURCES / "jar", jar_name()
    for place in (shipped, *cache_places(cache)):
        # A jar is code: one in another user's directory is not loaded.
        if (place / name).is_file() and (place == shipped or place.stat().st_uid == os.getuid()):
            return place / name
    return None


def jar_name() -> str:
    """The file name that belongs to these sources and this Spark."""
    version = spark_version()
    digest = hashlib.sha256(version.encode())
    for source in scala_files():
        digest.update(source.relative_to(SOURCES).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    return f"keyfold-kernel-{version}-{digest.hexdigest()[:16]}.jar"


def spark_version() -> str:
    """PySpark's version, read without importing it: a JVM is started meanwhile."""
    # spark-submit puts a zip of PySpark onto the path, which only the module's loader can read, and only by
    # the name that is on the path: in a container of YARN that is a link.
    file = str(_origin("pyspark").with_name("version.py"))
    loader: Any = find_spec("pyspark").loader  # type: ignore[union-attr]
    version = re.search(
        r"""^__version__[^=]*=\s*["']([^"']+)["']""", loader.get_data(file).decode(), re.MULTILINE
    )
    if version:
        return version[1]
    from pyspark import __version__

    return __version__


def spark_home() -> Path:
    """Where PySpark would look for Spark's jars and scripts."""
    if named := os.environ.get("SPARK_HOME"):
        return Path(named)
    own = module_directory("pyspark")
    # Made at installation when another Hadoop was asked for (PYSPARK_HADOOP_VERSION).
    distribution = own / "spark-distribution"
    return distribution if (distribution / "jars").is_dir() else own


def module_directory(name: str) -> Path:
    """Where a package is, found without importing it."""
    return _origin(name).resolve().parent


def _origin(name: str) -> Path:
    found = find_spec(name)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return Path(found.origin)


def scala_files() -> list[Path]:
    return sorted(SOURCES.glob("scala/**/*.scala"))


def cache_places(cache: Path | None) -> list[Path]:
    """Where a built jar may be kept, best first; the last is a temporary directory for read-only homes."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "keyfold"
    return [cache or default, Path(tempfile.gettempdir()) / f"keyfold-{os.getuid()}"]


def writable(places: list[Path]) -> Path:
    """The first place that files can be written to."""
    for place in places:
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=place):
                pass
        except OSError:
            continue
        if place.stat().st_uid == os.getuid():
            return place
    raise KernelBuildFailed(
        "the kernel's jar can't be written anywhere",
        given=", ".join(map(str, places)),
        hint="set KEYFOLD_KERNEL_DIR to a directory you can write to",
    )


def build(target: Path) -> Path:
    """Compiles the sources into `target`."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as work:
        classes = Path(work) / "classes"
        classes.mkdir()
        compile_scala(classes)
        aside = Path(work) / target.name
        with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as jar:
            for file in sorted(p for p in classes.rglob("*") if p.is_file()):
                jar.write(file, file.relative_to(classes))
        os.replace(aside, target)
    return target


def compile_scala(classes: Path) -> None:
    jars = spark_home() / "jars"
    if not jars.is_dir():
        raise KernelBuildFailed(
            "the kernel can't be compiled here: there are no jars of Spark",
            given=str(jars),
            hint="install keyfold from a wheel, which includes the compiled kernel; or set SPARK_HOME, or "
            "KEYFOLD_KERNEL_DIR to a directory with the kernel's jar",
        )
    command = [
        java(),
        *COMPILER_OPTIONS,
        "-cp",
        f"{jars}/*",
        "scala.tools.nsc.Main",
        "-usejavacp",
        "-nowarn",
        "-d",
    ]
    done = subprocess.run(
        [*command, str(classes), *map(str, scala_files())], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise KernelBuildFailed(
            "the kernel does not compile against this Spark",
            given=f"Spark's jars in {jars}",
            hint=f"install pyspark>=4.3,<4.4; the compiler said:\n{(done.stderr or done.stdout)[-2000:]}",
        )


def java() -> str:
    """The `java` that PySpark would start, checked for its version."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = f"install Java {LOWEST_JAVA} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless)"
    if not found or not os.access(found, os.X_OK):
        if home:
            advice = f"unset JAVA_HOME, or point it to Java {LOWEST_JAVA} or newer"
            raise JavaMissing("no Java found", given=f"JAVA_HOME={home}", hint=advice)
        raise JavaMissing("no Java found", given="PATH", hint=hint)
    version = java_version(found)
    number = re.match(r"(?:1\.)?(\d+)", version)
    if not number or int(number[1]) < LOWEST_JAVA:
        raise JavaMissing("this Java is too old for Spark 4", given=f"{found}: {version}", hint=hint)
    return found


def java_version(found: str) -> str:
    """The version of a `java`; what it prints instead if that is something else."""
    return _released_version(found) or _printed_version(found)


def _released_version(found: str) -> str | None:
    """The version that a JDK's `release` file has: asking `java` itself takes a tenth of a start."""
    try:
        text = (Path(found).resolve().parents[1] / "release").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    version = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return version[1] if version else None


def _printed_version(found: str) -> str:
    try:
        done = subprocess.run([found, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    version = re.search(r'version "([^"]+)"', done.stderr)
    return version[1] if version else next(iter(done.stderr.splitlines()), "?")
