"""Exact reconstruction of networks with one hidden ReLU layer (Milli et al. 2018), theirs and ours."""
