"""The runs of a study, in parallel."""
