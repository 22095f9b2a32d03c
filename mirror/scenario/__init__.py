"""Scenarios: situations that clusters and a replicator between them must survive, run for real, counted and judged."""
