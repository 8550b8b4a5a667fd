"""The report: tables, figures and one self-contained HTML page."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs
from rich.console import Group

from constrained_dnc.config import PAPER_RULE
from constrained_dnc.files import write_atomically
from constrained_dnc.report import charts, curves, overview, published, states
from constrained_dnc.report import score_tables as scores
from constrained_dnc.report import tables as lengths
from constrained_dnc.report.claims import claims_table, has_tested_claims
from constrained_dnc.report.drawing import Drawing, darken, png, save, style
from constrained_dnc.report.findings import Findings, beside_paper, by_rule, memory_name, stages_of
from constrained_dnc.report.states import embed_all
from constrained_dnc.report.tables import Table
from constrained_dnc.study import Study, layout, read_study

ReportProgress = Callable[[str, int, int], None]
"""Called with the name of a stage, the items done and their total."""


@dataclass(frozen=True)
class Report:
    """All tables and figures of a study, by section of the page."""

    study: Study

    @cached_property
    def rules(self) -> dict[str, Findings]:
        return by_rule(self.study)

    @cached_property
    def main(self) -> Findings:
        """Findings by the default rule."""
        return next(iter(self.rules.values()))

    @cached_property
    def analysed(self) -> Findings:
        """Findings by the rule whose states and modes are analysed."""
        stored = (self.study.analysis(run, "selection") for run in self.study.runs.index)
        rule = next((str(arrays["selection"]) for arrays in stored if arrays), PAPER_RULE)
        return self.rules.get(rule, self.main)

    @cached_property
    def tables(self) -> dict[str, list[Table]]:
        main, analysed, rules = self.main, self.analysed, self.rules
        claims = [claims_table(main, analysed)]
        if not main.memories:
            return {"claims": claims, "tables": [], "scores": [], "runs": []}
        tables = lengths.lengths_by_controller(main)
        for memory in main.memories:
            tables.append(lengths.max_lengths(rules, memory))
            tables.append(scores.average_scores(rules, memory))
            tables += scores.pair_tests(rules, memory)
        known = analysed.instances.notna().any()
        if known["curvature"] or known["state_count"]:
            tables += [scores.correlations(analysed), scores.properties(analysed)]
        tables += [scores.explained_variances(analysed)] if known["curvature"] else []
        tables += [lengths.lengths_by_memory(main)] if len(main.memories) > 1 else []
        tables += [lengths.lengths_by_rule(rules)] if len(rules) > 1 else []
        stages = stages_of(main)
        tables += [lengths.lengths_by_iterations(main, stages)] if stages else []
        measured = [task for task in main.tasks if (main.rows["task"] == task).any()]
        return {
            "claims": claims,
            "tables": tables,
            "scores": [scores.scores_by_length(main, task) for task in measured],
            "runs": [scores.runs(analysed)],
        }

    @cached_property
    def drawings(self) -> list[Drawing]:
        shown = (curves.drawings(findings) for findings in beside_paper(self.rules).values())
        return [*chain.from_iterable(shown), *states.drawings(self.analysed)]

    def write(self, progress: ReportProgress | None = None) -> Path:
        """Write tables, figures and page; return the path of the page."""
        notify = progress or (lambda stage, done, total: None)
        path = self.study.path
        for table in chain.from_iterable(self.tables.values()):
            table.write(path / layout.TABLES)
        embed_all(self.study, states.wanted_embeddings(self.analysed), notify)
        images = []
        for done, drawing in enumerate(self.drawings, start=1):
            images.append(_image(drawing, path / layout.FIGURES))
            notify("figures", done, len(self.drawings))
        # A failure's message may name a file that is not valid UTF-8.
        write_atomically(path / layout.PAGE, self._page(images).encode(errors="replace"))
        return path / layout.PAGE

    def terminal_table(self) -> Group:
        """Maximum lengths beside the paper's, for a terminal."""
        return overview.terminal_table(self.main)

    def _page(self, images: list[dict[str, str]]) -> str:
        study, main = self.study, self.main
        preset = study.request.get("preset")
        name = study.path.resolve().name
        environment = Environment(
            loader=PackageLoader(__package__),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        return environment.get_template("page.html").render(
            title=f"Constrained DNC: {name}" + (f" (preset {preset})" if preset else ""),
            paper=published.TITLE,
            is_compared=has_tested_claims(self.tables["claims"][0]),
            warning=overview.budget_warning(study),
            facts=overview.facts(study),
            sections=self.tables,
            charts={memory_name(study, it): charts.chart(main, it) for it in main.memories},
            lines=curves.caption(main),
            images=images,
            problems=overview.problems(study),
            command=str(study.request.get("command", "")),
            provenance=overview.provenance(study),
            plotly=get_plotlyjs().replace("</script", "<\\/script"),
        )


def build_report(study: str | Path, progress: ReportProgress | None = None) -> Path:
    """Write tables, figures and the page of a study, finished or not; return the page's path."""
    return Report(read_study(study)).write(progress)


def terminal_table(study: str | Path) -> Group:
    """The maximum lengths of a study beside the paper's, for a terminal."""
    return Report(read_study(study)).terminal_table()


def _image(drawing: Drawing, directory: Path) -> dict[str, str]:
    """A figure for the page, as data URIs for light and dark mode; its files are written."""
    with style():
        figure = drawing.draw()
        light = save(figure, directory, drawing.name)
        darken(figure)
        dark = png(figure)
    uris = {"light": _data_uri(light), "dark": _data_uri(dark)}
    return {"name": drawing.name, "title": drawing.title, "caption": drawing.caption, **uris}


def _data_uri(image: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(image).decode("ascii")
