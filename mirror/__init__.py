"""A disaster-recovery bench for Apache Kafka: an engine, runbooks and a ledger."""
