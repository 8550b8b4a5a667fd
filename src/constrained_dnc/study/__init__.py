"""Studies on disk: `disk` knows their files, `reading` what they say together."""

from constrained_dnc.study.disk import write_results
from constrained_dnc.study.reading import Curves, Study, Trial, query, read_study

__all__ = ["Curves", "Study", "Trial", "query", "read_study", "write_results"]
