"""The ledger and its judges: what was lost, duplicated, reordered or altered, and how late."""
