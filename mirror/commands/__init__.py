"""The commands of `mirror`, by subject: they read arguments, call, and print."""
