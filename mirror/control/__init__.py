"""The control plane: topics, configs, heartbeats, checkpoints and group offsets, each a tick."""
