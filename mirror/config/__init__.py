"""From a ``connect-mirror-maker.properties`` file to frozen settings."""
