"""Milli et al.: model reconstruction from model explanations."""
