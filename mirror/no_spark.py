"""Why there is no Spark; apart from `mirror.spark`, for those who have no second to spare for PySpark."""

from __future__ import annotations


class SparkDidNotStart(RuntimeError):
    """Spark's JVM ended before it answered; the message names its log and shows the last lines."""


class SparkFailed(RuntimeError):
    """Spark could not do what it was asked, or was lost meanwhile; the message says what that was."""
