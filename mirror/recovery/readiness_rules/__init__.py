"""The rules of ``mirror readiness``: a small function each, from what is known of both sides to differences."""
