"""The engine: the copier and the control plane of every flow of a properties file, run together until told to stop."""
