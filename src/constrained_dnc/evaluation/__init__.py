"""Evaluation: from a run directory to scores."""
