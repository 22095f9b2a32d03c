"""Pure values and rules of replication; no Kafka client, no Spark, no I/O."""
