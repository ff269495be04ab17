"""How good a copy is, with intervals."""
