"""Copies whose records have the offsets of their originals: what fills offsets without one, and what it costs."""
