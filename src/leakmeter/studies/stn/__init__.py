"""STN: certified robustness by additive noise."""
