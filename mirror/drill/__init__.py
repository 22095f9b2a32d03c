"""The runbook engine: steps, gates, journal, strict notebook runner, evidence and report."""
