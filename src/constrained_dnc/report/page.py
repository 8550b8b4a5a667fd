"""The report: tables, figures and one HTML page that needs nothing but itself."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from constrained_dnc import published
from constrained_dnc.analysis.embeddings import embed_all
from constrained_dnc.files import write_atomically
from constrained_dnc.published import THRESHOLD
from constrained_dnc.report import (
    charts,
    figures,
    longer_training,
    memory,
    selection,
    summary,
    tables,
)
from constrained_dnc.report.cells import Table, write_tables
from constrained_dnc.report.drawing import Drawing, darken, png, save, style
from constrained_dnc.report.findings import Findings, find
from constrained_dnc.report.selection import Shown
from constrained_dnc.report.summary import budget_warning, terminal_table
from constrained_dnc.report.verdicts import NOT_RUN, Verdict, judge_all
from constrained_dnc.report.wording import DASH, plural, rounded, span
from constrained_dnc.study import Study, layout, read_study

__all__ = ["build_report", "collect", "compose", "terminal_table", "write"]

ReportProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Image:
    """A figure as the page holds it: words and data addresses for light and dark pages."""

    name: str
    title: str
    caption: str
    light: str
    dark: str


@dataclass(frozen=True)
class Contents:
    """What a report holds, by section."""

    rules: Sequence[Findings]  # the paper's first
    tables: Mapping[str, Sequence[Table]]
    drawings: Mapping[str, Sequence[Drawing]]

    @property
    def main(self) -> Findings:
        return self.rules[0]


def build_report(study_directory: str | Path, progress: ReportProgress | None = None) -> Path:
    """Write tables, figures and the page of a study, finished or not; return the page's path.

    `progress` is told the name of a stage, how much of it is done, and how much there is.
    """
    return write(collect(read_study(study_directory)), progress)


def write(contents: Contents, progress: ReportProgress | None = None) -> Path:
    """The same for what was collected of a study."""
    tell = progress or (lambda stage, done, total: None)
    study = contents.main.study.path
    for found in contents.tables.values():
        write_tables(found, study / layout.TABLES)
    embed_all(contents.main.study, figures.wanted_embeddings(contents.main), tell)
    images = _draw_all(contents, study / layout.FIGURES, tell)
    page = study / layout.PAGE
    # the reasons of failures may name files in letters that UTF-8 does not have
    write_atomically(page, compose(contents, images).encode(errors="replace"))
    return page


def collect(study: Study) -> Contents:
    """Every table and figure a study has something to show in."""
    rules = [find(study, rule) for rule in study.selections] or [find(study)]
    main, others = rules[0], rules[1:]
    stages = longer_training.evaluations(main)
    is_enlarged = memory.was_enlarged(main)
    of_main: dict[str, list[Table]] = {
        "tables": tables.all_tables(main),
        "memory": [memory.lengths_by_memory(main)] if is_enlarged else [],
        "growth": [longer_training.lengths_by_iterations(main, stages)] if stages else [],
    }
    drawings = _captioned(
        {
            "figures": figures.all_drawings(main),
            "memory": memory.drawings(main),
            "growth": longer_training.drawings(main, stages),
        },
        main.selection,
    )
    drawings["memory"] += _by_other_rules(memory.drawings, others)
    return Contents(
        rules,
        {
            **_captioned(of_main, main.selection),
            "rules": [selection.comparison(rules)] if others else [],
            "runs": [longer_training.runs(study)] if len(study.runs) else [],
            **{each.selection: _by_other_rules(tables.all_tables, [each]) for each in others},
        },
        {
            **drawings,
            "rules": _by_other_rules(figures.curve_drawings, others),
        },
    )


def _by_other_rules(
    made: Callable[[Findings], Iterable[Shown]], others: Sequence[Findings]
) -> list[Shown]:
    """What is made of each of the other rules, named by it."""
    return [
        selection.by_other_rule(each, found.selection) for found in others for each in made(found)
    ]


def _captioned(sections: Mapping[str, list[Shown]], rule: str) -> dict[str, list[Shown]]:
    """Every table or figure with its rule in the caption."""
    return {
        section: [selection.captioned(shown, rule) for shown in found]
        for section, found in sections.items()
    }


def compose(contents: Contents, images: Mapping[str, Sequence[Image]]) -> str:
    """The text of the page."""
    main, rules, study = contents.main, contents.rules, contents.main.study
    verdicts = judge_all(main)
    trained = study.training_lengths
    has_rules = len(rules) > 1
    values: dict[str, object] = {
        "title": f"Constrained DNC: {summary.study_name(study)}",
        "paper": published.TITLE,
        "warning": budget_warning(main),
        "facts": summary.facts(main),
        "verdict_summary": _verdict_summary(verdicts),
        "verdicts": _by_topic(verdicts),
        "other_verdicts": _other_verdicts(rules[1:]),
        "rules": [selection.sentence(each.selection, study) for each in rules] if has_rules else [],
        "rule_names": [each.selection for each in rules],
        "disagreement": rounded(100 * selection.DISAGREEMENT, 0),
        "disagreements": selection.disagreements(rules),
        "num_runs": len(study.runs),
        "other_tables": [(each.selection, contents.tables[each.selection]) for each in rules[1:]],
        "spread": charts.spread(rules),
        "trained": "" if trained is None else span(trained),
        "threshold": rounded(100 * THRESHOLD, 0),
        "slots": study.memory_size,
        "effects": memory.effects(main) if memory.was_enlarged(main) else [],
        "chips": charts.chips(rules),
        "chart_groups": charts.groups(rules),
        "chart_data": charts.data(rules),
        "tables": contents.tables["tables"],
        "rule_tables": contents.tables["rules"],
        "memory_tables": contents.tables["memory"],
        "growth_tables": contents.tables["growth"],
        "run_tables": contents.tables["runs"],
        "images": images["figures"],
        "rule_images": images["rules"],
        "memory_images": images["memory"],
        "growth_images": images["growth"],
        "runs": summary.runs_to_look_at(main),
        "command": str(study.request.get("command", DASH)),
        "provenance": summary.provenance(main),
        "plotly": get_plotlyjs().replace("</script", "<\\/script"),
    }
    return _environment().get_template("page.html").render(values)


def _other_verdicts(rules: Sequence[Findings]) -> dict[str, list[tuple[str, Verdict]]]:
    """By claim, what the parameters of the other selection rules say."""
    found: dict[str, list[tuple[str, Verdict]]] = {}
    for findings in rules:
        for verdict in judge_all(findings):
            if verdict.here:
                found.setdefault(verdict.claim.text, []).append((findings.selection, verdict))
    return found


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


def _draw_all(contents: Contents, directory: Path, tell: ReportProgress) -> dict[str, list[Image]]:
    total = sum(map(len, contents.drawings.values()))
    images: dict[str, list[Image]] = {section: [] for section in contents.drawings}
    wanted = [(section, each) for section, found in contents.drawings.items() for each in found]
    for done, (section, drawing) in enumerate(wanted, start=1):
        images[section].append(_image(drawing, directory))
        tell("figures", done, total)
    return images


def _image(drawing: Drawing, directory: Path) -> Image:
    with style():
        figure = drawing.draw()
        light = save(figure, directory, drawing.name)
        darken(figure)
        dark = png(figure)
    return Image(drawing.name, drawing.title, drawing.caption, _data_uri(light), _data_uri(dark))


def _data_uri(image: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(image).decode("ascii")


def _verdict_summary(verdicts: Sequence[Verdict]) -> str:
    words = [_counted_as(verdict) for verdict in verdicts if verdict.word != NOT_RUN]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(sorted(words)))
    told = f"{len(words)} of {plural(len(verdicts), 'claim')} could be compared"
    return f"{told}: {counts}." if counts else f"{told}."


def _counted_as(verdict: Verdict) -> str:
    """Its word; a direction that a caution leaves open is no direction found."""
    is_open = verdict.caution and verdict.agrees is not None
    return f"{verdict.word} but undecided" if is_open else verdict.word


def _by_topic(verdicts: Sequence[Verdict]) -> list[tuple[str, list[Verdict], list[Verdict]]]:
    """Topic, the verdicts on it, and the claims on it that were not run."""
    groups = []
    for topic, group in groupby(verdicts, key=lambda verdict: verdict.claim.topic):
        shown = list(group)
        told = [verdict for verdict in shown if verdict.word != NOT_RUN]
        rest = [verdict for verdict in shown if verdict.word == NOT_RUN]
        groups.append((topic, told, rest))
    return groups
