"""Generators of queries: noise to images."""
