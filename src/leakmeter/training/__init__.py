"""Training networks: one loop, and each technique a loss in a file of its own."""
