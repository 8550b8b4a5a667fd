"""Studies on disk: `disk` knows their files, `reading` what they say together."""

from constrained_dnc.study.disk import write_results
from constrained_dnc.study.reading import FEW_TRIALS, Curves, Study, Trial, query, read_study

__all__ = ["FEW_TRIALS", "Curves", "Study", "Trial", "query", "read_study", "write_results"]
