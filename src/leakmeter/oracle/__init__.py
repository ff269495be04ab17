"""The only door to a victim, and the count of everything that passes it."""
