"""Tables, figures and the page of a study, beside the paper's."""

from constrained_dnc.report.document import Report, build_report, terminal_table

__all__ = ["Report", "build_report", "terminal_table"]
