"""Black-box attacks: each spends queries and brings back a copy."""
