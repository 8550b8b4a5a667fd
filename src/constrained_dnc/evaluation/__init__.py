"""Evaluation: from a model or a run to a table of scores."""
