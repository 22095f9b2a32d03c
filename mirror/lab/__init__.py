"""Clusters to practise on, the applications that load them, and the faults that break them."""
