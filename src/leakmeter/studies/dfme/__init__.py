"""DFME: data-free model extraction, the appendix."""
