"""Copies whose records have the offsets of their originals: what fills the offsets that have none, and what it costs."""
