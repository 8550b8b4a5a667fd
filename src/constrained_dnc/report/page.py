"""The report: tables, figures and one HTML page that needs nothing but itself."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from constrained_dnc.analysis.embeddings import embed_all
from constrained_dnc.analysis.statistics import THRESHOLD
from constrained_dnc.report import cells, charts, drawing, figures, published, summary, tables
from constrained_dnc.report.cells import Table
from constrained_dnc.report.findings import Findings, find
from constrained_dnc.report.summary import budget_warning, terminal_table
from constrained_dnc.report.verdicts import Verdict, judge_all
from constrained_dnc.report.wording import DASH, plural, rounded, span
from constrained_dnc.study import read_study
from constrained_dnc.training.files import write_atomically

__all__ = ["build_report", "compose", "terminal_table"]

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Image:
    """A figure as the page holds it: words and data addresses for light and dark pages."""

    name: str
    title: str
    caption: str
    light: str
    dark: str


def build_report(study_directory: Path, progress: Progress | None = None) -> Path:
    """Write tables, figures and the page of a study, finished or not; return the page's path.

    `progress` is told the name of a stage, how much of it is done, and how much there is.
    """
    tell = progress or (lambda stage, done, total: None)
    findings = find(read_study(study_directory))
    directory = study_directory / "report"
    found_tables = tables.all_tables(findings)
    cells.write_tables(found_tables, directory / "tables")
    embed_all(findings.study, figures.wanted_embeddings(findings), tell)
    images = list(_draw_all(findings, directory / "figures", tell))
    page = directory / "index.html"
    write_atomically(page, compose(findings, found_tables, images).encode())
    return page


def compose(findings: Findings, found: Sequence[Table], images: Sequence[Image]) -> str:
    """The text of the page."""
    verdicts = judge_all(findings)
    trained = findings.study.training_lengths
    request = findings.study.request
    return (
        _environment()
        .get_template("page.html")
        .render(
            title=f"Constrained DNC: {request.get('preset', 'study')}",
            paper=published.TITLE,
            warning=budget_warning(findings),
            facts=summary.facts(findings),
            verdict_summary=_verdict_summary(verdicts),
            verdicts=_by_topic(verdicts),
            trained="" if trained is None else span(trained),
            threshold=rounded(100 * THRESHOLD, 0),
            chips=charts.chips(findings),
            chart_groups=charts.groups(findings),
            chart_data=charts.data(findings),
            tables=found,
            images=images,
            runs=summary.runs_to_look_at(findings),
            command=str(request.get("command", DASH)),
            provenance=summary.provenance(findings),
            plotly=get_plotlyjs().replace("</script", "<\\/script"),
        )
    )


def _environment() -> Environment:
    """Everything is escaped, a name without a value is an error, and JSON has no NaN."""
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    return environment


def _draw_all(findings: Findings, directory: Path, tell: Progress) -> Iterable[Image]:
    drawings = figures.all_drawings(findings)
    for done, wanted in enumerate(drawings, start=1):
        with drawing.style():
            figure = wanted.draw()
            light = drawing.save(figure, directory, wanted.name)
            drawing.darken(figure)
            dark = drawing.png(figure)
        yield Image(wanted.name, wanted.title, wanted.caption, _data_uri(light), _data_uri(dark))
        tell("figures", done, len(drawings))


def _data_uri(image: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(image).decode("ascii")


def _verdict_summary(verdicts: Sequence[Verdict]) -> str:
    words = [verdict.word for verdict in verdicts if verdict.word != "not run"]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(sorted(words)))
    told = f"{len(words)} of {plural(len(verdicts), 'claim')} could be compared"
    return f"{told}: {counts}." if counts else f"{told}."


def _by_topic(verdicts: Sequence[Verdict]) -> list[tuple[str, list[Verdict], list[Verdict]]]:
    """Topic, the verdicts on it, and the claims on it that were not run."""
    groups = []
    for topic, group in groupby(verdicts, key=lambda verdict: verdict.claim.topic):
        shown = list(group)
        told = [verdict for verdict in shown if verdict.word != "not run"]
        rest = [verdict for verdict in shown if verdict.word == "not run"]
        groups.append((topic, told, rest))
    return groups
