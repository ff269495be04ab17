"""Adversarial examples, on a white box or a substitute, and by labels alone through an oracle."""
