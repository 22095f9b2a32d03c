"""What a run leaves behind: its directory, journal, outcomes and seals, read back typed, and how they are shown."""
