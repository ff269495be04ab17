"""Exact copies of decision trees and of small ensembles, box by box."""
