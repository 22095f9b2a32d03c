"""Which keys Connect's workers and Kafka's clients read, where this engine has no use for most of them.

Below a cluster MirrorMaker 2 takes any key, and these have an effect there (CFG-081..CFG-084); what is none of them is
read by nobody but a plugin. The names are those of the classes of release 4.3.1: `DistributedConfig`, `ProducerConfig`,
`ConsumerConfig`, `AdminClientConfig`.
"""

from __future__ import annotations

from typing import Final

WORKER_KEYS: Final = frozenset(
    {
        "access.control.allow.methods", "access.control.allow.origin", "admin.listeners", "bootstrap.servers",
        "client.dns.lookup", "client.id", "config.providers", "config.storage.replication.factor",
        "config.storage.topic", "connect.protocol", "connections.max.idle.ms",
        "connector.client.config.override.policy", "exactly.once.source.support", "group.id", "header.converter",
        "header.converter.plugin.version", "heartbeat.interval.ms", "inter.worker.key.generation.algorithm",
        "inter.worker.key.size", "inter.worker.key.ttl.ms", "inter.worker.signature.algorithm",
        "inter.worker.verification.algorithms", "key.converter", "key.converter.plugin.version", "listeners",
        "metadata.max.age.ms", "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy",
        "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
        "offset.flush.interval.ms", "offset.flush.timeout.ms", "offset.storage.partitions",
        "offset.storage.replication.factor", "offset.storage.topic", "plugin.discovery", "plugin.path",
        "rebalance.timeout.ms", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
        "request.timeout.ms", "response.http.headers.config", "rest.advertised.host.name", "rest.advertised.listener",
        "rest.advertised.port", "rest.extension.classes", "retry.backoff.max.ms", "retry.backoff.ms",
        "sasl.client.callback.handler.class", "sasl.jaas.config", "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.service.name", "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor", "sasl.login.callback.handler.class", "sasl.login.class",
        "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms",
        "sasl.mechanism", "sasl.oauthbearer.assertion.algorithm", "sasl.oauthbearer.assertion.claim.aud",
        "sasl.oauthbearer.assertion.claim.exp.seconds", "sasl.oauthbearer.assertion.claim.iss",
        "sasl.oauthbearer.assertion.claim.jti.include", "sasl.oauthbearer.assertion.claim.nbf.seconds",
        "sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.template.file", "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.jwt.validator.class", "sasl.oauthbearer.scope",
        "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.token.endpoint.url",
        "scheduled.rebalance.max.delay.ms", "security.protocol", "send.buffer.bytes", "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms", "ssl.cipher.suites",
        "ssl.client.auth", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class", "ssl.key.password", "ssl.keymanager.algorithm", "ssl.keystore.certificate.chain",
        "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.protocol",
        "ssl.provider", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
        "status.storage.partitions", "status.storage.replication.factor", "status.storage.topic",
        "task.shutdown.graceful.timeout.ms", "topic.creation.enable", "topic.tracking.allow.reset",
        "topic.tracking.enable", "value.converter", "value.converter.plugin.version", "worker.sync.timeout.ms",
        "worker.unsync.backoff.ms",
    }
)  # fmt: skip
"""All keys of a Connect worker, its connection and security included (CFG-081)."""

CLIENT_ONLY_KEYS: Final = frozenset(
    {
        "acks", "allow.auto.create.topics", "auto.commit.interval.ms", "auto.offset.reset", "batch.size",
        "bootstrap.controllers", "buffer.memory", "check.crcs", "client.rack", "compression.gzip.level",
        "compression.lz4.level", "compression.type", "compression.zstd.level", "default.api.timeout.ms",
        "delivery.timeout.ms", "enable.auto.commit", "enable.idempotence", "enable.metrics.push",
        "exclude.internal.topics", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "group.instance.id",
        "group.protocol", "group.remote.assignor", "interceptor.classes",
        "internal.throw.on.fetch.stable.offset.unsupported", "isolation.level", "key.deserializer", "key.serializer",
        "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection", "max.partition.fetch.bytes",
        "max.poll.interval.ms", "max.poll.records", "max.request.size", "metadata.max.idle.ms",
        "partition.assignment.strategy", "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms", "partitioner.class", "partitioner.ignore.keys", "retries",
        "security.providers", "share.acknowledgement.mode", "share.acquire.mode", "transaction.timeout.ms",
        "transaction.two.phase.commit.enable", "transactional.id", "value.deserializer", "value.serializer",
    }
)  # fmt: skip
"""Those of producers, consumers and admin clients that workers do not define; bare, the worker's own clients take them
(CFG-083)."""
