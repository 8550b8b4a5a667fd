"""Training: from a config to a run directory."""
