"""Studies on disk: `layout` reads and writes their files, `study` puts them together."""

from constrained_dnc.study.layout import write_results
from constrained_dnc.study.study import Study, read_study

__all__ = ["Study", "read_study", "write_results"]
