"""The `java` command that starts Spark directly, without the JVM and the shell scripts of spark-submit.

`bin/spark-submit` starts a JVM whose only work is to compute this command from Spark's configuration. Where
none of that configuration is in use, the command is always the same, and a test compares it with the one that
Spark's launcher prints. In all other cases `needs_spark_submit` leaves the start to spark-submit.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from keyfold.kernel.build import spark_home

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
SUBMIT_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
MEMORY: Final = "spark.driver.memory"
_MAIN: Final = "org.apache.spark.deploy.SparkSubmit"
_SHELL: Final = "pyspark-shell"
_SCALA: Final = "2.13"
# Settings and variables that Spark's launcher turns into other arguments or another class path.
_LAUNCHER_SETTINGS: Final = (
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.driver.userClassPathFirst",
    "spark.submit.deployMode",
)
_LAUNCHER_VARIABLES: Final = (
    "HADOOP_CONF_DIR",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_PREPEND_CLASSES",
    "SPARK_PRINT_LAUNCH_COMMAND",
    "SPARK_SQL_TESTING",
    "SPARK_TESTING",
    "YARN_CONF_DIR",
)
_OPENED: Final = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
# What Spark 4.3 needs of Java, in the launcher's order.
MODULE_OPTIONS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)


def needs_spark_submit(wanted: Mapping[str, str]) -> bool:
    """Whether Spark's own configuration is in use, which only its launcher knows how to read."""
    if os.name != "posix" or not (spark_home() / "jars").is_dir() or is_configured_outside():
        return True
    options = f"{wanted.get(JAVA_OPTIONS, '')} {os.environ.get('SPARK_SUBMIT_OPTS', '')}"
    return (
        not wanted["spark.master"].startswith("local")
        or any(name in wanted for name in _LAUNCHER_SETTINGS)
        # Refused by the launcher, or quoted in a way that it alone understands.
        or "-Xmx" in options
        or "\\" in options
        or any(options.count(quote) % 2 for quote in "'\"")
    )


def is_configured_outside() -> bool:
    """Whether Spark has settings beside those that keyfold gives it: in files, or in variables."""
    return (
        (spark_home() / "conf").exists()
        or os.environ.get(SUBMIT_ARGUMENTS, _SHELL).strip() not in ("", _SHELL)
        or any(os.environ.get(name) for name in _LAUNCHER_VARIABLES)
    )


def java_command(
    java: str, kernel: Path, wanted: Mapping[str, str], properties: Path, options: tuple[str, ...] = ()
) -> list[str]:
    """The command; `options` come before the user's, which override them."""
    return [
        java,
        "-cp",
        os.pathsep.join(map(str, class_path(kernel))),
        *options,
        *shlex.split(os.environ.get("SPARK_SUBMIT_OPTS", "")),
        f"-Xmx{wanted[MEMORY]}",
        *shlex.split(wanted.get(JAVA_OPTIONS, "")),
        *MODULE_OPTIONS,
        _MAIN,
        "--extra-properties-file",
        str(properties),
        _SHELL,
    ]


def class_path(kernel: Path) -> list[Path]:
    """Spark's jars in the launcher's order, then the kernel.

    On the class path the kernel is loaded by the JVM's own class loader, whose classes can be archived.
    """
    jars = spark_home() / "jars"
    return [*sorted(jars.glob("slf4j-api-*.jar")), jars / "*", kernel]


def environment(connection: Path) -> dict[str, str]:
    """The variables that PySpark and spark-submit's scripts set for the JVM."""
    return {
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "SPARK_SCALA_VERSION": _SCALA,
        "SPARK_CONNECT_MODE": "0",
        # Python workers must agree on the hash of a text.
        "PYTHONHASHSEED": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection),
    }
