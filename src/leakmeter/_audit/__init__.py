"""An audit from a plan to a report: what `lm.audit` and the command line run."""
