"""Whether a client of the lab reaches any broker: of one that reaches none nothing more can be learnt by waiting."""

from __future__ import annotations

from confluent_kafka import KafkaError


class Reach:
    """What one client says of its connections; told by its thread, and asked by others."""

    def __init__(self) -> None:
        self.is_lost = False

    def failed(self, error: KafkaError) -> None:
        """Take in an error of the client, as its ``error_cb``."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.is_lost = True

    def answered(self) -> None:
        """Take in that a broker has answered."""
        self.is_lost = False
