"""The report: tables, figures and one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from rich.console import Group
from rich.text import Text

from constrained_dnc.config import PAPER_RULE
from constrained_dnc.errors import printable
from constrained_dnc.files import make_folder, refuse_link, write_atomically
from constrained_dnc.report import curves, overview, published, states
from constrained_dnc.report import score_tables as scores
from constrained_dnc.report import tables as lengths
from constrained_dnc.report.claims import claims_table
from constrained_dnc.report.drawing import Drawing
from constrained_dnc.report.findings import Findings, beside_paper, by_rule, stages_of
from constrained_dnc.report.tables import Table
from constrained_dnc.study import Study, read_study
from constrained_dnc.study.study import FIGURES, PAGE, TABLES

ReportProgress = Callable[[str, int, int], None]
"""Called with the name of a stage, the items done and their total."""
Figures = Literal["quick", "all"]
"""Which figures are drawn: all, or those that take seconds."""


@dataclass(frozen=True)
class Report:
    """All tables and figures of a study, by section of the page.

    Args:
        study: what `read_study` returns, finished or not.
        figures: which are drawn; by default all if the paper's numbers can be compared.
    """

    study: Study
    figures: Figures | None = None

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
        if not main.memories:
            return {"tables": [], "scores": [], "claims": [], "runs": []}
        tables = [lengths.summary(rules)]
        for memory in main.memories:
            tables.append(lengths.max_lengths(rules, memory))
            tables.append(scores.average_scores(rules, memory))
            tables += scores.pair_tests(rules, memory)
        if analysed.properties:
            tables += [scores.correlations(analysed), scores.properties(analysed)]
        if "explained_variance" in analysed.instances:
            tables.append(scores.explained_variances(analysed))
        tables += lengths.lengths_by_controller(main)
        tables += [lengths.lengths_by_memory(main)] if len(main.memories) > 1 else []
        tables += [lengths.lengths_by_rule(rules)] if len(rules) > 1 else []
        stages = stages_of(main)
        tables += [lengths.lengths_by_iterations(main, stages)] if stages else []
        claims = claims_table(main, analysed)
        measured = [task for task in main.tasks if (main.rows["task"] == task).any()]
        return {
            "tables": tables,
            "scores": [scores.scores_by_length(main, task) for task in measured],
            "claims": [claims] if len(claims.cells) else [],
            "runs": [scores.runs(analysed)],
        }

    @cached_property
    def drawings(self) -> dict[str, list[Drawing]]:
        """The figures by section: score against length by the default rule, and all others."""
        others = [
            findings for findings in beside_paper(self.rules).values() if findings is not self.main
        ]
        drawn = [*chain.from_iterable(map(curves.drawings, others))]
        drawn += states.properties_drawings(self.analysed)
        drawn += states.drawings(self.analysed) if self.draws_all else []
        return {"curves": [*curves.drawings(self.main)], "figures": drawn}

    @property
    def draws_all(self) -> bool:
        """Whether the figures that take minutes are drawn, too."""
        return self.figures == "all" or (self.figures is None and self.main.is_comparable)

    @property
    def left_out(self) -> str:
        """Which figures are left out, and how to get them; empty if none are."""
        if self.draws_all or not any(states.drawings(self.analysed)):
            return ""
        command = f"cdnc report {self.study.path} --figures all"
        return f"Left out: cell states (t-SNE, minutes) and memory modes; `{command}` draws them."

    def write(self, progress: ReportProgress | None = None) -> Path:
        """Write tables, figures and page; return the path of the page."""
        notify = progress or (lambda stage, done, total: None)
        path = self.study.path
        for name in (PAGE, TABLES, FIGURES):
            refuse_link((path / name).parent)
            refuse_link(path / name)
        for table in chain.from_iterable(self.tables.values()):
            table.write(path / TABLES)
        if self.draws_all:
            states.embed_all(self.study, states.wanted_embeddings(self.analysed), notify)
        total, images = sum(map(len, self.drawings.values())), {}
        for done, drawing in enumerate(chain.from_iterable(self.drawings.values()), start=1):
            images[drawing.name] = drawing.write(path / FIGURES)
            notify("figures", done, total)
        make_folder((path / PAGE).parent)
        # A failure's message may name a file that is not valid UTF-8.
        write_atomically(path / PAGE, self._page(images).encode(errors="replace"))
        return path / PAGE

    def terminal_table(self) -> Group:
        """Maximum lengths with what they mean, for a terminal."""
        main = self.main
        tables = [lengths.summary(self.rules).to_terminal()] if main.memories else []
        sentences = [overview.unseen_scores(main), overview.unlearnt(main), self._warning]
        return Group(*tables, *(Text(printable(sentence)) for sentence in sentences if sentence))

    @property
    def _warning(self) -> str:
        """How far the study is from the paper's, if its numbers stand beside ours."""
        return overview.budget_warning(self.study) if self.main.is_comparable else ""

    def _page(self, images: dict[str, str]) -> str:
        study, main = self.study, self.main
        preset = study.stored.get("preset")
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
            paper=published.TITLE if main.is_comparable else "",
            warnings=[warning for warning in (overview.unlearnt(main), self._warning) if warning],
            facts=overview.facts(main),
            tables=self.tables,
            drawings=self.drawings,
            images=images,
            left_out=self.left_out,
            problems=overview.problems(study),
            command=str(study.stored.get("command", "")),
            provenance=study.provenance,
        )


def build_report(
    study: str | Path, progress: ReportProgress | None = None, figures: Figures | None = None
) -> Path:
    """Write tables, figures and the page of a study, finished or not; return the page's path.

    Args:
        study: a study's folder.
        progress: called with the name of a stage, the items done and their total.
        figures: which are drawn; by default all if the paper's numbers can be compared.
    """
    return Report(read_study(study), figures).write(progress)


def terminal_table(study: str | Path) -> Group:
    """The maximum lengths of a study, for a terminal."""
    return Report(read_study(study)).terminal_table()
