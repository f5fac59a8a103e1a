"""The settings of a run: from arguments, from `KEYFOLD_*` in the environment, or the defaults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from keyfold import kafka_names
from keyfold.errors import BadOption, choice, did_you_mean
from keyfold.masking import mask, mask_value

# In place of the settings library's own words.
_REASONS = {"bool_parsing": "must be true or false", "bool_type": "must be true or false"}
_MEMORY = re.compile(r"[1-9][0-9]*[kmgt]b?", re.IGNORECASE)

_DATABASE = re.compile(r"postgres(?:ql)?://", re.IGNORECASE)
_LOGIN = r"[^\s@:/?#]+(?::[^\s@:/?#]*)?@"
_WELL_FORMED = re.compile(rf"\w+://(?:{_LOGIN})?[^\s@/?#]*/[^\s@/?#]+(?:\?[^\s@#]*)?")

INTERNAL: Final = frozenset({"kernel_dir", "class_archive", "jvm_launcher"})
"""Settings that work, but that nobody should need: hints and the reference leave them out."""


class Settings(BaseSettings):
    """All settings, with type, default and description."""

    model_config = SettingsConfigDict(
        env_prefix="KEYFOLD_", env_ignore_empty=True, extra="forbid", frozen=True
    )

    home: Path | str = Field(
        Path(".keyfold"),
        description="Directory of all state: checkpoints, logs, views. A path, or a URI of a file system "
        "that Spark can write, such as hdfs://host/path or s3a://bucket/path.",
    )
    local: Path | None = Field(
        None,
        description="Directory of files that can be rebuilt: views, status, logs, temporary files. Default: "
        "the home, or .keyfold if the home is not on a local disk.",
    )
    views: str = Field(
        "sqlite",
        description='Where views are: "sqlite", a file among the local ones; a database, '
        'postgresql://user@host:port/database; or "none": there are none.',
        repr=False,
    )
    view_lag: int = Field(
        2, ge=0, description="How many batches a view or a sink may lag behind before its table waits for it."
    )
    master: str | None = Field(
        None, description="Spark master of the session that keyfold creates; local[*] if not set."
    )
    spark: dict[str, str] = Field(
        {}, description="Additional Spark settings; as JSON in the environment.", repr=False
    )
    kafka: dict[str, str] = Field(
        {},
        description="Settings of Kafka's clients, for all sources and sinks, such as security.protocol or "
        "sasl.username; as JSON in the environment.",
        repr=False,
    )
    driver_memory: str = Field(
        "4g", description="Heap size of the JVM that keyfold starts, in Spark's notation."
    )
    state_memory: str = Field(
        "1g",
        description="Off-heap memory of all state stores in the JVM, or in each executor: one cache and one "
        "limit on write buffers, shared by the partitions of all tables.",
    )
    batch_files: int = Field(
        20_000,
        gt=0,
        description="How many files a batch reads from each stream at most. maxFilesPerTrigger or "
        "maxBytesPerTrigger of a stream overrides it.",
    )
    batch_bytes: str = Field(
        "4g",
        description="How many bytes of files a batch reads from each stream at most, but at least one file. "
        "The same options of a stream override it.",
    )
    lease_seconds: float = Field(
        15.0,
        gt=0,
        description="How many seconds the lease on an app's home lasts without a heartbeat; a process on "
        "another host can then take the home over. Heartbeats are three times as frequent.",
    )
    missing_files: Literal["fail", "skip"] = Field(
        "fail",
        description='What happens to a batch whose input files are missing: "fail" stops its table until '
        'they are back; "skip" skips them permanently and records them as rejected.',
    )
    kernel_dir: Path | None = Field(
        None, description="Directory in which the compiled kernel and the class archive are cached."
    )
    class_archive: bool = Field(
        True,
        description="Whether starts use an archive of Java's classes, which a background process writes "
        "after the first successful run.",
    )
    jvm_launcher: Literal["direct", "spark-submit"] = Field(
        "direct",
        description='How the JVM is started: "direct" runs java itself where Spark has no configuration of '
        'its own; "spark-submit" always goes through Spark\'s script.',
    )

    @property
    def local_directory(self) -> Path:
        """Where logs and temporary files are, and the local files of apps."""
        home = self.home if isinstance(self.home, Path) else Path(".keyfold")
        return (self.local or home).resolve()

    @field_validator("home", mode="before")
    @classmethod
    def _anywhere(cls, value: Any) -> Any:
        if isinstance(value, str) and value.startswith(("s3://", "s3n://")):
            raise ValueError("Spark's name for S3 is s3a://")
        if isinstance(value, str) and "://" in value and not value.startswith("file:"):
            return value.rstrip("/")
        return cls._on_disk(value)

    @field_validator("local", "kernel_dir", mode="before")
    @classmethod
    def _on_disk(cls, value: Any) -> Any:
        if isinstance(value, str) and re.match("file:(///)?(?!//)", value):
            value = value.removeprefix("file:").removeprefix("//")
        if isinstance(value, str) and "://" in value:
            raise ValueError("must be a path on a local disk")
        return Path(value).expanduser() if isinstance(value, str | Path) else value

    @field_validator("views", mode="before")
    @classmethod
    def _known_store(cls, value: Any) -> Any:
        if value in ("sqlite", "none"):
            return value
        if not isinstance(value, str) or not _DATABASE.match(value):
            raise ValueError("must be sqlite, none, or postgresql://user@host:port/database")
        if not _WELL_FORMED.fullmatch(value):
            raise ValueError(
                "is no postgresql://user@host:port/database; in a user and a password, write @ : / ? # % and "
                "spaces as %40 %3A %2F %3F %23 %25 %20"
            )
        return _DATABASE.sub("postgresql://", value)

    @field_validator("spark", "kafka", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: str(item).lower() if isinstance(item, bool) else str(item) for name, item in value.items()
        }

    @field_validator("kafka")
    @classmethod
    def _known_to_kafka(cls, value: dict[str, str]) -> dict[str, str]:
        name = kafka_names.unknown_setting(value)
        if name is not None:
            raise ValueError(f"Kafka's client has no setting {name}: {kafka_names.advice(name)}")
        return value

    @field_validator("driver_memory", "state_memory", "batch_bytes")
    @classmethod
    def _memory(cls, value: str) -> str:
        if not _MEMORY.fullmatch(value):
            raise ValueError("must be a number and a unit, such as 4g or 512m")
        return value


def public_settings() -> list[str]:
    """The settings that users may want to change."""
    return [name for name in Settings.model_fields if name not in INTERNAL]


def load(**overrides: Any) -> Settings:
    """The settings, arguments first; None means not set. An invalid setting is a `BadOption`."""
    given = {name: value for name, value in overrides.items() if value is not None}
    for name in given:
        if name not in Settings.model_fields:
            hint = did_you_mean(name, Settings.model_fields, choice(public_settings()))
            raise BadOption(
                f"unknown setting {name!r}", given=f"{name}={mask_value(name, repr(given[name]))}", hint=hint
            )
    try:
        return Settings(**given)
    except ValidationError as error:
        raise _invalid(error, given) from None
    except ValueError as error:
        # KEYFOLD_SPARK or KEYFOLD_KAFKA that is not JSON: the settings library names the field.
        raise BadOption(f"a setting is invalid: {error}", hint='KEYFOLD_SPARK=\'{"spark.x": "y"}\'') from None


def _invalid(error: ValidationError, given: dict[str, Any]) -> BadOption:
    first = error.errors()[0]
    name = str(first["loc"][0])
    where = "argument of start" if name in given else f"KEYFOLD_{name.upper()}"
    why = _REASONS.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    value = first["input"]
    if name == "views":
        # One that is not well-formed may have a password anywhere before the host.
        value = re.sub(r"://.*@", "://***@", str(value), flags=re.DOTALL)
    # A misspelt name may be that of a secret: values of a dict are not shown.
    text = ", ".join(value) if isinstance(value, dict) else mask(str(value))
    return BadOption(f"setting {name!r}: {why}", where=where, given=text)
