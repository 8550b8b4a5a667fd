"""Studies on disk: `layout` knows their files, `study` what they say together."""

from constrained_dnc.study.layout import write_results
from constrained_dnc.study.study import Study, read_study

__all__ = ["Study", "read_study", "write_results"]
