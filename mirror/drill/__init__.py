"""The runbook engine: steps, gates, strict notebook runner, judgement and report."""
