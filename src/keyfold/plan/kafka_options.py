"""The options of `kf.kafka`: those of Kafka's client, of Spark's Kafka source, and of the messages' format.

Spark and Kafka's clients ignore unknown options, and the clients only receive those with the prefix.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from keyfold import kafka_names
from keyfold.errors import BadOption, did_you_mean
from keyfold.plan import file_options

PREFIX: Final = "kafka."
AVRO_SCHEMA: Final = "avroSchema"
"""The option under which a plan has the schema of `kf.avro`."""
_SOURCE: Final = (
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions",
    "maxRecordsPerPartition", "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)  # fmt: skip
_SPELT: Final = frozenset(name.lower() for name in _SOURCE)
_NUMBERS: Final = frozenset({"maxoffsetspertrigger", "minpartitions", "maxrecordsperpartition"})
_ARGUMENTS: Final = {
    "kafka.bootstrap.servers": "servers",
    "bootstrap.servers": "servers",
    "subscribe": "topic=",
    "assign": "topic=",
    "subscribepattern": "pattern=",
    "startingoffsets": "start=",
    "startingtimestamp": "start=",
    "startingoffsetsbytimestamp": "start=",
    "kafka.auto.offset.reset": "start=",
    "auto.offset.reset": "start=",
    "failondataloss": "on_data_loss=",
    "includeheaders": "metadata=['headers']",
    "kafka.key.deserializer": "key_format=",
    "kafka.value.deserializer": "format=",
    AVRO_SCHEMA.lower(): "format=kf.avro(schema=...)",
}
_FORMATS: Final = {one: file_options.of_format(one) for one in ("json", "csv")}


def is_source_option(name: str) -> bool:
    """Whether an option belongs to Spark's Kafka source or Kafka's client, not to the format."""
    return name.lower().startswith(PREFIX) or name.lower() in _SPELT


def check(format: str, given: Mapping[Any, object], where: object = None) -> None:
    """Refuses options that arguments of `kf.kafka` set, and those that would have no effect."""
    own = _FORMATS.get(format, ())
    for name, value in given.items():
        if not isinstance(name, str):
            hint = 'options={"kafka.fetch.max.bytes": 1000000}'
            raise BadOption(
                "the name of an option must be a string", where=where, given=repr(name), hint=hint
            )
        argument = _ARGUMENTS.get(name.lower())
        if argument is not None:
            problem = f"option {name} is the argument {argument} of kf.kafka"
            raise BadOption(problem, where=where, given=f"options={{{name!r}: ...}}", hint=argument)
        if name.lower() in _NUMBERS and not (str(value).isdecimal() and int(str(value)) > 0):
            problem = f"option {name} of kf.kafka must be a whole number above zero"
            raise BadOption(problem, where=where, given=repr(value), hint=f"options={{{name!r}: 1000}}")
        if is_source_option(name) or name.lower() in {one.lower() for one in own}:
            continue
        raise BadOption(
            f"unknown option {name!r} of kf.kafka with format={format!r}",
            where=where,
            given=f"options={{{name!r}: ...}}",
            hint=_advice(name, (*_SOURCE, *own)),
        )
    _check_client(given, where)


def _check_client(given: Mapping[Any, object], where: object) -> None:
    """Refuses names that no client of Kafka knows."""
    own = {name[len(PREFIX) :]: value for name, value in given.items() if name.lower().startswith(PREFIX)}
    name = kafka_names.unknown_setting(own)
    if name is not None:
        raise BadOption(
            f"Kafka's client has no setting {name}",
            where=where,
            given=f"options={{{PREFIX + name!r}: ...}}",
            hint=kafka_names.advice(name, PREFIX),
        )


def _advice(name: str, known: Iterable[str]) -> str | None:
    if "." in name:
        return f"'{PREFIX}{name}', if it is a setting of Kafka's client"
    others = f"one of: {', '.join(_SOURCE[:6])}, kafka.NAME for Kafka's client, or those of the format"
    return did_you_mean(name, known, others)
