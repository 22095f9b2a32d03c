"""The only code that talks to Kafka: admin, record batches, fetch and produce frames, security."""
