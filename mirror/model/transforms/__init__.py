"""Record-level transforms as Connect's transformation chains make them, as far as raw bytes allow (CFG-012, REC-10)."""
