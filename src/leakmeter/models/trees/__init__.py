"""Ensembles of decision trees as modules of tensors: evaluated by torch, saved without pickle, read from libraries."""
