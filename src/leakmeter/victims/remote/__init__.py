"""Asking a model over HTTP: how it is spelt (`protocol`, `template`) and how it is sent (`client`, `pace`)."""
