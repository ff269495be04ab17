"""Run directories: what survives a kill."""
