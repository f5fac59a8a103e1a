"""Settings of Kafka's clients: one set of names for Spark's client, in Java, and for Python's.

Names are those of librdkafka, which takes certificates and keys as PEM files, or those of Kafka's Java
client; each is translated for the other. They come from the setting `kafka` (`KEYFOLD_KAFKA`), and from
`options=` of `kf.kafka`, where they begin with `kafka.`; the latter win.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from keyfold.errors import BadOption
from keyfold.plan.nodes import Connector

PREFIX: Final = "kafka."
_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
_OAUTH: Final = "sasl.oauthbearer."
_OAUTH_HANDLER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
# What Java's client has a text for, where librdkafka has a file: (librdkafka's file, its text, Java's text).
_PEM: Final = (
    ("ssl.ca.location", "ssl.ca.pem", "ssl.truststore.certificates"),
    ("ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.certificate.chain"),
    ("ssl.key.location", "ssl.key.pem", "ssl.keystore.key"),
)
_JAAS_FIELD: Final = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')

_common: ContextVar[Mapping[str, str] | None] = ContextVar("kafka_settings", default=None)


@contextmanager
def using(settings: Mapping[str, str]) -> Iterator[None]:
    """Within it, clients have the settings of the run beside those of their declaration."""
    token = _common.set(settings)
    try:
        yield
    finally:
        _common.reset(token)


def servers(connector: Connector) -> str:
    """The brokers that clients ask first."""
    assert connector.kafka is not None
    return _given_settings(connector).get("bootstrap.servers", connector.kafka.servers)


def protocol(connector: Connector) -> str | None:
    """How clients speak with the brokers: Kafka's `security.protocol`, if it is set."""
    return _given_settings(connector).get("security.protocol")


def for_spark(connector: Connector) -> dict[str, str]:
    """The options of Spark's Kafka source: those of the declaration, with client settings in Java's names."""
    others = {name: value for name, value in connector.options if not name.startswith(PREFIX)}
    return {**others, **{PREFIX + name: value for name, value in java(_given_settings(connector)).items()}}


def for_python(connector: Connector) -> dict[str, Any]:
    """The settings of Kafka's client for Python, with the servers."""
    # Its own lines on stderr are off: what matters is raised.
    return {"bootstrap.servers": servers(connector), "log_level": 0, **python(_given_settings(connector))}


def _given_settings(connector: Connector) -> dict[str, str]:
    own = {n.removeprefix(PREFIX): value for n, value in connector.options if n.startswith(PREFIX)}
    return {**(_common.get() or {}), **own}


def java(given: Mapping[str, str]) -> dict[str, str]:
    """Client settings in the names of Kafka's Java client.

    >>> java({"sasl.mechanisms": "PLAIN", "sasl.username": "me", "sasl.password": "x"})["sasl.mechanism"]
    'PLAIN'
    """
    found = dict(given)
    if "sasl.mechanisms" in found:
        found["sasl.mechanism"] = found.pop("sasl.mechanisms")
    if found.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    for file, text, javas in _PEM:
        content = found.pop(text, None)
        if file in found:
            content = _read(file, found.pop(file))
        if content is not None:
            found[javas] = content
            found["ssl.truststore.type" if file == "ssl.ca.location" else "ssl.keystore.type"] = "PEM"
    _java_sasl(found)
    return found


def python(given: Mapping[str, str]) -> dict[str, str]:
    """Client settings in librdkafka's names.

    >>> module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    >>> python({"sasl.jaas.config": f'{module} required username="me" password="x";'})["sasl.username"]
    'me'
    """
    found = dict(given)
    if found.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"
    for _, text, javas in _PEM:
        if javas in found:
            found[text] = found.pop(javas)
    for store, names in _STORES.items():
        _python_store(found, store, names)
    jaas = dict(_JAAS_FIELD.findall(found.pop("sasl.jaas.config", "")))
    for field, name in _JAAS_NAMES.items():
        if field in jaas:
            found.setdefault(name, re.sub(r"\\(.)", r"\1", jaas[field]))
    if _OAUTH + "client.id" in found:
        found.setdefault(_OAUTH + "method", "oidc")
    found.pop("sasl.login.callback.handler.class", None)
    return found


_STORES: Final = {
    "ssl.truststore": ("ssl.ca.location",),
    "ssl.keystore": ("ssl.certificate.location", "ssl.key.location"),
}
_JAAS_NAMES: Final = {
    "username": "sasl.username",
    "password": "sasl.password",
    "clientId": _OAUTH + "client.id",
    "clientSecret": _OAUTH + "client.secret",
    "scope": _OAUTH + "scope",
}


def _python_store(found: dict[str, str], store: str, names: tuple[str, ...]) -> None:
    """Java's stores of certificates, as far as librdkafka reads them: PEM files."""
    kind, file = found.pop(f"{store}.type", "JKS"), found.pop(f"{store}.location", None)
    found.pop(f"{store}.password", None)
    if file is None:
        return
    if kind.upper() != "PEM":
        raise BadOption(
            "Kafka's client for Python reads certificates and keys as PEM files",
            given=f"{store}.type={kind}",
            hint=f"{' and '.join(names)} in place of {store}.location; Spark's client uses them too",
        )
    found.update(dict.fromkeys(names, file))


def _java_sasl(found: dict[str, str]) -> None:
    """A user and a password, or an OAuth client, as Java's client takes them."""
    mechanism = found.get("sasl.mechanism", "").upper()
    fields = {field: found.pop(name) for field, name in _JAAS_NAMES.items() if name in found}
    oauth = found.pop(_OAUTH + "method", None) is not None or "clientId" in fields
    if oauth:
        found.setdefault("sasl.login.callback.handler.class", _OAUTH_HANDLER)
    if not fields or "sasl.jaas.config" in found:
        return
    if mechanism not in _MODULES:
        raise BadOption(
            "sasl.username needs a supported sasl.mechanism",
            given=f"sasl.mechanism={mechanism or None}",
            hint="one of: " + ", ".join(_MODULES),
        )
    text = " ".join(f'{field}="{_escape(value)}"' for field, value in fields.items())
    found["sasl.jaas.config"] = f"{_MODULES[mechanism]} required {text};"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _read(name: str, file: str) -> str:
    """The text of a PEM file: executors on other machines don't have the file."""
    try:
        return Path(file).expanduser().read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a PEM file"
        raise BadOption(f"{name} can't be read: {reason}", given=file) from None
