"""Reports: every one is built from `results.json` alone."""
