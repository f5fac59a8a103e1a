"""The settings of Kafka's clients, by name: the clients ignore a name that they do not know.

Tests compare both lists with the clients themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from keyfold.errors import near

JAVA: Final = frozenset(
    ["acks", "allow.auto.create.topics", "auto.commit.interval.ms", "auto.include.jmx.reporter", "auto.offset.reset", "batch.size", "bootstrap.controllers", "bootstrap.servers", "buffer.memory", "check.crcs", "client.dns.lookup", "client.id", "client.rack", "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level", "connections.max.idle.ms", "default.api.timeout.ms", "delivery.timeout.ms", "enable.auto.commit", "enable.idempotence", "enable.metrics.push", "exclude.internal.topics", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "group.id", "group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "interceptor.classes", "internal.leave.group.on.close", "internal.throw.on.fetch.stable.offset.unsupported", "isolation.level", "key.deserializer", "key.serializer", "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection", "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records", "max.request.size", "metadata.max.age.ms", "metadata.max.idle.ms", "metadata.recovery.strategy", "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "partition.assignment.strategy", "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "partitioner.class", "partitioner.ignore.keys", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retries", "retry.backoff.max.ms", "retry.backoff.ms", "sasl.client.callback.handler.class", "sasl.jaas.config", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.service.name", "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor", "sasl.login.callback.handler.class", "sasl.login.class", "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms", "sasl.mechanism", "sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.header.urlencode", "sasl.oauthbearer.jwks.endpoint.refresh.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.token.endpoint.url", "security.protocol", "security.providers", "send.buffer.bytes", "session.timeout.ms", "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms", "ssl.cipher.suites", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.engine.factory.class", "ssl.key.password", "ssl.keymanager.algorithm", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.protocol", "ssl.provider", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type", "transaction.timeout.ms", "transactional.id", "value.deserializer", "value.serializer"]
)
"""What `ConsumerConfig`, `ProducerConfig` and `AdminClientConfig` of Kafka's Java client define."""

LIBRDKAFKA: Final = frozenset(
    ["acks", "allow.auto.create.topics", "api.version.fallback.ms", "api.version.request", "api.version.request.timeout.ms", "auto.commit.enable", "auto.commit.interval.ms", "auto.offset.reset", "batch.num.messages", "batch.size", "bootstrap.servers", "broker.address.family", "broker.address.ttl", "broker.version.fallback", "builtin.features", "check.crcs", "client.dns.lookup", "client.id", "client.rack", "compression.codec", "compression.level", "compression.type", "connections.max.idle.ms", "consume.callback.max.messages", "coordinator.query.interval.ms", "debug", "delivery.report.only.error", "delivery.timeout.ms", "enable.auto.commit", "enable.auto.offset.store", "enable.gapless.guarantee", "enable.idempotence", "enable.metrics.push", "enable.partition.eof", "enable.random.seed", "enable.sasl.oauthbearer.unsecure.jwt", "enable.ssl.certificate.verification", "enabled_events", "fetch.error.backoff.ms", "fetch.max.bytes", "fetch.message.max.bytes", "fetch.min.bytes", "fetch.queue.backoff.ms", "fetch.wait.max.ms", "group.id", "group.instance.id", "group.protocol", "group.protocol.type", "group.remote.assignor", "heartbeat.interval.ms", "https.ca.location", "https.ca.pem", "internal.termination.signal", "isolation.level", "linger.ms", "log.connection.close", "log.queue", "log.thread.name", "log_level", "max.in.flight", "max.in.flight.requests.per.connection", "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records", "message.copy.max.bytes", "message.max.bytes", "message.send.max.retries", "message.timeout.ms", "metadata.broker.list", "metadata.max.age.ms", "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "offset.store.method", "offset.store.path", "offset.store.sync.interval.ms", "partition.assignment.strategy", "partitioner", "plugin.library.paths", "produce.offset.report", "queue.buffering.backpressure.threshold", "queue.buffering.max.kbytes", "queue.buffering.max.messages", "queue.buffering.max.ms", "queued.max.messages.kbytes", "queued.min.messages", "queuing.strategy", "receive.message.max.bytes", "reconnect.backoff.jitter.ms", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.required.acks", "request.timeout.ms", "retries", "retry.backoff.max.ms", "retry.backoff.ms", "sasl.kerberos.keytab", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.principal", "sasl.kerberos.service.name", "sasl.mechanism", "sasl.mechanisms", "sasl.oauthbearer.assertion.algorithm", "sasl.oauthbearer.assertion.claim.aud", "sasl.oauthbearer.assertion.claim.exp.seconds", "sasl.oauthbearer.assertion.claim.iss", "sasl.oauthbearer.assertion.claim.jti.include", "sasl.oauthbearer.assertion.claim.nbf.seconds", "sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.file", "sasl.oauthbearer.assertion.jwt.template.file", "sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.assertion.private.key.passphrase", "sasl.oauthbearer.assertion.private.key.pem", "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config", "sasl.oauthbearer.extensions", "sasl.oauthbearer.grant.type", "sasl.oauthbearer.metadata.authentication.type", "sasl.oauthbearer.method", "sasl.oauthbearer.scope", "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.token.endpoint.url", "sasl.password", "sasl.username", "security.protocol", "session.timeout.ms", "share.acknowledgement.mode", "socket.blocking.max.ms", "socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.max.fails", "socket.nagle.disable", "socket.receive.buffer.bytes", "socket.send.buffer.bytes", "socket.timeout.ms", "ssl.ca.certificate.stores", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.cipher.suites", "ssl.crl.location", "ssl.curves.list", "ssl.endpoint.identification.algorithm", "ssl.engine.id", "ssl.engine.location", "ssl.key.location", "ssl.key.password", "ssl.key.pem", "ssl.keystore.location", "ssl.keystore.password", "ssl.providers", "ssl.sigalgs.list", "statistics.interval.ms", "sticky.partitioning.linger.ms", "topic.blacklist", "topic.metadata.propagation.max.ms", "topic.metadata.refresh.fast.cnt", "topic.metadata.refresh.fast.interval.ms", "topic.metadata.refresh.interval.ms", "topic.metadata.refresh.sparse", "transaction.timeout.ms", "transactional.id"]
)
"""What librdkafka takes as text."""

# Read by Java's client, although it does not define them.
_UNDEFINED: Final = frozenset({"config.providers", "metrics.jmx.exclude", "metrics.jmx.include"})
_PROVIDER: Final = "config.providers."
_KNOWN: Final = JAVA | LIBRDKAFKA | _UNDEFINED
_CODE: Final = re.compile(
    r"(\.class|\.classes|serializer)$"
    r"|^(metric\.reporters|partition\.assignment\.strategy|plugin\.library\.paths|security\.providers)$"
)
_KAFKAS_OWN: Final = "org.apache.kafka."


def unknown(given: Mapping[str, object]) -> str | None:
    """The first name that no client knows; None if there is none, or it may be meant for the user's code.

    A class of the user's, such as an interceptor, is handed all settings, among them those of its own.

    >>> given = {"secruity.protocol": "SSL"}
    >>> unknown(given), unknown({**given, "sasl.login.class": "my.Login"})
    ('secruity.protocol', None)
    """
    if any(loads_code(name, value) for name, value in given.items()):
        return None
    return next((n for n in given if n not in _KNOWN and not n.startswith(_PROVIDER)), None)


def loads_code(name: str, value: object) -> bool:
    """Whether a setting names a class or a library that is not Kafka's own."""
    parts = (part.strip() for part in str(value).split(","))
    return bool(_CODE.search(name)) and any(part and not part.startswith(_KAFKAS_OWN) for part in parts)


def advice(name: str, prefix: str = "") -> str:
    """What to write in place of a name that no client knows."""
    found = near(name, sorted(_KNOWN))
    if found is not None:
        return f"did you mean {prefix + found!r}?"
    return "a setting of Kafka's client; one that a class of yours reads is accepted beside that class"
