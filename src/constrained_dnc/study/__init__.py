"""Studies: sets of runs that are planned, completed and read together."""

from constrained_dnc.study.study import Study, read_study

__all__ = ["Study", "read_study"]
