"""Whether a client of the lab reaches any broker: of one that reaches none nothing more can be learnt by waiting."""

from __future__ import annotations

from confluent_kafka import KafkaError


class Reachability:
    """What one client says of its connections; told by its thread, and asked by others."""

    def __init__(self) -> None:
        self.is_lost = False
        self.losses = 0

    def failed(self, error: KafkaError) -> None:
        """Take in an error of the client, as its ``error_cb``."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.is_lost = True
            self.losses += 1

    def answered(self, *, losses: int | None = None) -> None:
        """Take in that a broker has answered.

        ``losses`` were known before the client was asked: what it hands out together with a later one was fetched
        before that. The client tells of each loss once, so one that is taken for over stays untold. None: it is
        reported in the order in which it came about.
        """
        if losses is None or losses == self.losses:
            self.is_lost = False
