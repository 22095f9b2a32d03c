"""The bench: this engine and Java MirrorMaker 2, measured one after the other on the same records and machine."""
