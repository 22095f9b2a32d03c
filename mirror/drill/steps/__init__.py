"""What the notebooks of the failover drill call: one module a notebook, over one stage."""
