"""Make the pages and pictures of the shipped results, or check the pages.

    python scripts/results_page.py           # write
    python scripts/results_page.py --check   # exit code 1 if a page says something else

docs/results.md is filled in from results_page.md.jinja, docs/results-tables.md has every table of
the report, and README.md and other pages have a table between `<!-- table: NAME TASKS -->` and
`<!-- end -->`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure
from scipy import stats

from constrained_dnc import load_run, zoo
from constrained_dnc.colours import LIGHT, colours_of
from constrained_dnc.config import MASTERED, THRESHOLD
from constrained_dnc.report import Report, published
from constrained_dnc.report.claims import claims
from constrained_dnc.report.curves import score_against_length, score_by_memory
from constrained_dnc.report.drawing import grid, log_lengths, standalone, style, svg
from constrained_dnc.report.findings import Findings
from constrained_dnc.report.overview import budget_warning, thousands, unlearnt
from constrained_dnc.report.score_tables import properties
from constrained_dnc.report.states import memory_modes, properties_against_score, state_picture
from constrained_dnc.report.tables import CONTROLLERS, DASH, Table, lengths_of, percent, rounded
from constrained_dnc.study import Study, read_study

ROOT = Path(__file__).parents[1]
STUDY, FRESH = ROOT / "results" / "paper-100k", ROOT / "results" / "copy-20k"
BASELINE, CONSTRAINED, ROUNDED = "stateful-baseline", "compr+reg", "round+reg"
MARKED = re.compile(r"<!-- table: (?P<name>\S+)(?P<tasks>[^\n]*) -->\n.*?<!-- end -->", re.S)


class Page:
    """What the template of the results page asks for."""

    def __init__(self, report: Report) -> None:
        self.report, self.rules, self.main = report, report.rules, report.main
        self.study, self.slots = report.study, report.main.trained_memory
        self.more_slots = str(10 * report.study.memory_size)
        self.tables = {table.name: table for table in chain.from_iterable(report.tables.values())}
        self.claims = f"{len(self.tables['claims'].cells)} of the paper's {len(claims())} claims"
        self.iterations = thousands(int(self.study.runs["iterations"].max()))
        self.budget, self.unlearnt = budget_warning(self.study), unlearnt(self.rules["seen"])
        self.published = published
        self.lengths = lengths_of(
            {**self.rules, **{f"{rule}, digital": it.digital for rule, it in self.rules.items()}},
            "rule",
        ).set_index(["rule", "memory", "task", "approach", "measure"])

    def has(self, task: str, approach: str) -> bool:
        """Whether an approach was trained on a task."""
        return (self.slots, task, approach) in self.main.curves

    def length(
        self,
        task: str,
        approach: str = CONSTRAINED,
        measure: str = "entries",
        rule: str = "score",
        memory: str | None = None,
    ) -> str:
        """A maximum length with those of its seeds, or a dash."""
        text: Any = self.lengths["text"].get((rule, memory or self.slots, task, approach, measure))
        return DASH if text is None else str(text)

    def paper(self, task: str, approach: str = CONSTRAINED, extended: bool = False) -> str:
        """The paper's maximum length."""
        return str(published.max_lengths(extended).get((task, approach), DASH))

    def further(self, task: str, approach: str = CONSTRAINED, than: str = BASELINE) -> str:
        """How many seeds of an approach go further than every seed of another."""
        ours, others = (
            self.lengths["each"]["score", self.slots, task, name, "entries"]
            for name in (approach, than)
        )
        return f"{sum(one > max(others) for one in ours)} of {len(ours)} seeds"

    def p_value(self, task: str, than: str = BASELINE, adjusted: bool = False) -> str:
        """Of compr+reg against another approach, average scores."""
        tests = [*self.main.paper_tests, *self.main.pair_tests(self.slots, others=True)]
        (test,) = (
            it for it in tests if it.task == task and {it.first, it.second} == {CONSTRAINED, than}
        )
        return rounded(test.p_adjusted if adjusted else test.p, 3)

    def correlation(self, task: str, measure: str) -> str:
        """Of the curvature or the state count with the average score."""
        (one,) = (it for it in self.report.analysed.correlations(measure) if it.task == task)
        return f"{one.tau:.2f} (n = {one.instances}, adjusted p = {rounded(one.p_adjusted, 3)})"

    def floor(self, task: str, length: int) -> str:
        """The floor of a task at a length, in percent."""
        return percent(self.main.floors[task][length])

    def measured(self, name: str, task: str, approach: str) -> str:
        """The curvature of an approach by the rule of the analyses, its state count by `score`."""
        findings = self.report.analysed if name == "curvature" else self.main
        cells = properties(findings).cells
        known = (task, name) in cells.index and approach in cells
        return str(cells.loc[(task, name), approach]) if known else DASH

    @property
    def summary(self) -> str:
        """The table of the page: a row per task and approach that was trained."""
        rows = []
        for _, task, name in self.main.keys([self.slots], self.main.tasks):
            seeds = len(self.main.curves[self.slots, task, name])
            whole = self.length(task, name, "whole")
            digital = self.length(task, name, rule="score, digital")
            others = (self.length(task, name, rule=rule) for rule in ("unseen", "seen"))
            rows.append((task, name, str(seeds), self.length(task, name), whole, digital, *others))
        columns = ["task", "approach", "seeds", "entries", "whole answers", "digital"]
        columns += ["`unseen`", "`seen`"]
        frame = pd.DataFrame(rows, columns=columns)
        frame["paper"] = [self.paper(*row[:2]) for row in rows]
        frame = frame.loc[:, (frame != DASH).any()].set_index(["task", "approach"])
        return Table("", "", "", frame).to_markdown()

    @property
    def parts(self) -> str:
        """Maximum lengths of the paper's approaches and of the bare controller, and the paper's."""
        sizes = {"": (self.slots, False), f", {self.more_slots} slots": (self.more_slots, True)}
        columns = {}
        names = ("peephole", "compr", "reg", CONSTRAINED, "stateless-baseline", BASELINE)
        for task, (text, (slots, extended)) in product(("sort", "copy"), sizes.items()):
            columns[f"{task}{text}"] = [self.length(task, name, memory=slots) for name in names]
            columns[f"paper: {task}{text}"] = [self.paper(task, name, extended) for name in names]
        return Table("", "", "", pd.DataFrame(columns, index=names)).to_markdown()

    @property
    def shortfall(self) -> str:
        """Average scores by the paper's rule beside the paper's, where several seeds were run."""
        findings, cells = self.rules["unseen"], {}
        theirs = published.average_scores(extended=False)
        for task, name in product(self.main.tasks, published.APPROACHES):
            ours = findings.averages_of((self.slots, task, name)).to_numpy()
            if len(ours) < 2:
                continue
            mean, sd = (theirs[task, name][value] for value in ("mean", "sd"))
            moments = (ours.mean(), ours.std(ddof=1), len(ours), mean, sd, published.TRIALS)
            p = stats.ttest_ind_from_stats(*moments, equal_var=False).pvalue
            cells[task, name] = {
                "seeds": str(len(ours)),
                "here": f"{percent(ours.mean())} ± {percent(moments[1])}",
                "paper": f"{percent(mean)} ± {percent(sd)}",
                "p": rounded(float(p), 4),
            }
        return Table("", "", "", pd.DataFrame(cells).T).to_markdown()

    @property
    def trained(self) -> str:
        """Which approaches have how many seeds, by task."""
        counts = {
            key: len(curve) for key, curve in self.main.curves.items() if key[0] == self.slots
        }
        by_task = {
            task: ", ".join(
                f"{key[2]} ({counts[key]})" for key in self.main.keys([self.slots], [task])
            )
            for task in self.main.tasks_with(self.slots)
        }
        return _grouped(by_task)

    @property
    def untrained(self) -> str:
        """Which of the paper's approaches, and of the four combinations, were not trained."""
        names = dict.fromkeys((*published.APPROACHES, *CONTROLLERS))
        missing = {
            task: ", ".join(name for name in names if not self.has(task, name))
            for task in published.TASKS
        }
        return _grouped({task: text for task, text in missing.items() if text})

    def premature(self, rule: str) -> str:
        """How many runs solve the training lengths by `seen` and not by another rule."""
        last = self.study.training_lengths[1]
        each = self.lengths["each"].xs((self.slots, "entries"), level=("memory", "measure"))
        pairs = zip(chain(*each[rule]), chain(*each["seen"]), strict=True)
        return str(sum(ours < last <= seen for ours, seen in pairs))


class Fresh:
    """What the template asks for about block A of results/PROTOCOL.md: copy on fresh seeds."""

    SEEDS, ALREADY_SEEN = 10, (10, 11)

    def __init__(self, study: Study) -> None:
        self.rules = {rule: Findings(study, rule) for rule in study.selections}
        self.main, self.slots = self.rules["seen"], str(study.memory_size)
        self.more_slots = str(10 * study.memory_size)
        self.iterations = thousands(int(study.runs["iterations"].max()))
        self.names = tuple(
            name for name in (ROUNDED, CONSTRAINED, BASELINE) if name in study.approaches
        )
        self.counts = {name: len(self.scores(name)) for name in self.names}

    @property
    def is_complete(self) -> bool:
        """Whether all seeds are in; the planned tests are made then and not before."""
        return {*self.counts.values()} == {self.SEEDS}

    def scores(
        self, name: str, measure: str = "score", memory: str | None = None, rule: str = "seen"
    ) -> pd.DataFrame:
        """A row per seed, a column per length."""
        rows = self.rules[rule].rows
        chosen = (rows["approach"] == name) & (rows["memory"] == (memory or self.slots))
        return rows[chosen].pivot(index="seed", columns="length", values=measure)

    def averages(self, name: str, rule: str = "seen") -> pd.Series:
        """By seed, the primary measure."""
        frame = self.rules[rule].averages
        chosen = (frame["approach"] == name) & (frame["memory"] == self.slots)
        return frame[chosen].set_index("seed")["average"]

    def longest(self, name: str, memory: str | None = None, rule: str = "seen") -> str:
        """The longest input with 95 % of the entries correct: median of the seeds, and range."""
        lengths = self.rules[rule].lengths["each"]
        return spread(lengths[memory or self.slots, "copy", name, "entries"])

    def each(self, name: str) -> str:
        """The longest input of every seed with more slots."""
        return ", ".join(
            map(str, self.main.lengths["each"][self.more_slots, "copy", name, "entries"])
        )

    def reached(self, name: str, length: int, rule: str = "seen", memory: str | None = None) -> str:
        """How many seeds have 95 % of the entries correct at a length."""
        at = self.scores(name, memory=memory, rule=rule)[length]
        return f"{(at >= MASTERED).sum()} of {len(at)}"

    def whole(self, name: str, length: int) -> str:
        """Whole answers at a length with more slots, in percent: median of the seeds, and range."""
        return spread(100 * self.scores(name, "sequence_accuracy", self.more_slots)[length])

    @property
    def other_rules(self) -> list[str]:
        """The rules that look at an unseen length, if all runs were scored by them."""
        every = self._measured("seen", self.slots)
        return [
            rule
            for rule in self.rules
            if rule != "seen" and self._measured(rule, self.slots) == every
        ]

    def _measured(self, rule: str, memory: str) -> set[str]:
        rows = self.rules[rule].rows
        return {*rows.loc[rows["memory"] == memory, "run_id"]}

    def table(self, rule: str = "seen") -> str:
        """A row per approach, by one rule; with more slots where all were measured."""
        cells, more = {}, self.more_slots
        has_more = self._measured(rule, more) == self._measured("seen", more)
        for name in self.names:
            cells[name] = {
                "seeds": str(self.counts[name]),
                "average score": spread(100 * self.averages(name, rule)),
                "95 % at 30": self.reached(name, 30, rule),
                f"longest, {self.slots} slots": self.longest(name, rule=rule),
            }
            if has_more:
                cells[name] |= {
                    f"95 % at 100, {more} slots": self.reached(name, 100, rule, more),
                    f"longest, {more} slots": self.longest(name, more, rule),
                }
        return Table("", "", "", pd.DataFrame(cells).T).to_markdown()

    @property
    def readme(self) -> Table:
        """The table of the first page: medians and counts of seeds."""
        more, each = self.more_slots, self.main.lengths["each"]
        paper, cells = published.max_lengths(extended=True), {}
        for name in reversed(self.names):
            beside = f" (paper: {paper['copy', name]})" if ("copy", name) in paper else ""
            whole = self.scores(name, "sequence_accuracy", more)[100]
            cells[f"`{name}`"] = {
                f"longest copy, {more} slots": f"{np.median(each[more, 'copy', name, 'entries']):g}"
                + beside,
                f"seeds that copy 100, {more} slots": self.reached(name, 100, memory=more),
                "copies of 100 without an error": f"{percent(whole.median())} %",
                f"seeds that copy 30, {self.slots} slots": self.reached(name, 30),
                f"correct at 2 to 45, {self.slots} slots": (
                    f"{percent(self.averages(name).median())} %"
                ),
            }
        return Table("copy-20k", "", "", pd.DataFrame(cells))

    def picture(self) -> Figure:
        """Score against length with ten times the slots: a panel an approach, a line a seed."""
        names = self.names[::-1]
        figure, panels = grid(len(names), columns=len(names), width=2.7, height=2.2)
        paper, colours = published.max_lengths(extended=True), colours_of(names)
        for panel, name in zip(panels, names, strict=True):
            panel.axvspan(*self.main.study.training_lengths, color=LIGHT["ink"], alpha=0.07, lw=0)
            panel.axhline(100 * THRESHOLD, color=LIGHT["faint"], lw=0.8, zorder=0)
            scores = 100 * self.scores(name, memory=self.more_slots).T
            panel.plot(scores.index, scores, color=colours[name], lw=1.2, alpha=0.9)
            if ("copy", name) in paper:
                panel.plot(paper["copy", name], 100 * THRESHOLD, "D", ms=5, color=LIGHT["ink"])
            panel.set_title(name, loc="left", color=colours[name])
            log_lengths(panel)
            panel.set(xlim=(5, 500), ylim=(0, 103), yticks=range(0, 101, 20))
        panels[0].set_ylabel("correct entries (%)")
        panels[len(names) // 2].set_xlabel("numerals to copy")
        return figure

    def tests(self, without: Sequence[int] = ()) -> str:
        """The planned comparisons: two-sided exact U, adjusted for each other by Holm's method."""
        p = {
            name: stats.mannwhitneyu(
                *(self.averages(one).drop(list(without)) for one in (ROUNDED, name)), method="exact"
            ).pvalue
            for name in (CONSTRAINED, BASELINE)
        }
        smaller, larger = sorted(p, key=p.__getitem__)
        adjusted = {smaller: min(1, 2 * p[smaller]), larger: max(2 * p[smaller], p[larger])}
        return ", ".join(f"against {name} p = {adjusted[name]:.2g}" for name in p)


def spread(values: Any) -> str:
    """The median of the seeds and, in brackets, the least and the largest."""
    values = np.asarray(values, float)
    return f"{np.median(values):.3g} ({values.min():.3g} to {values.max():.3g})"


def _grouped(texts: dict[str, str]) -> str:
    """Tasks with the same text together: "sort, copy: a; add: b"."""
    tasks: dict[str, list[str]] = {}
    for task, text in texts.items():
        tasks.setdefault(text, []).append(task)
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in tasks.items())


def all_tables(page: Page) -> Iterator[str]:
    """The page of tables."""
    yield "# Every table of the shipped results\n\nMade by `scripts/results_page.py` from "
    yield f"`results/{page.study.path.name}`; [results.md](results.md) is the summary.\n"
    for table in page.tables.values():
        yield f"\n## {table.title}\n\n{table.caption}\n\n{table.to_markdown()}\n"


def renewed(text: str, tables: dict[str, Table]) -> str:
    """A page with every marked table as the report has it, some tasks and the networks only."""

    def table(match: re.Match[str]) -> str:
        shown, tasks = tables[match["name"]], match["tasks"].split()
        if tasks:
            cells = shown.cells[shown.cells.index.get_level_values(0).isin(tasks)]
            is_network = ~cells.columns.str.contains("digital")
            cells = cells.loc[:, (cells != DASH).any() & is_network]
            shown = replace(shown, cells=cells, css=shown.css.reindex_like(cells))
        return f"{match[0].splitlines()[0]}\n{shown.to_markdown()}\n<!-- end -->"

    return MARKED.sub(table, text)


def pages(report: Report, fresh: Fresh, docs: Path) -> dict[Path, str]:
    """The content of every page that shows results."""
    page = Page(report)
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    memory, readme = docs / "memory-size.md", ROOT / "README.md"
    template = environment.get_template("results_page.md.jinja")
    return {
        docs / "results.md": template.render(page=page, fresh=fresh),
        readme: renewed(readme.read_text(encoding="utf-8"), {"copy-20k": fresh.readme}),
        docs / "results-tables.md": "".join(all_tables(page)),
        memory: renewed(memory.read_text(encoding="utf-8"), page.tables),
    }


def digital_picture(report: Report) -> Figure:
    """Pretrained models with more slots, as networks and with digital inference."""
    findings, memory = report.main, str(10 * report.study.memory_size)
    colour = colours_of([CONSTRAINED])[CONSTRAINED]
    figure, panels = grid(2, columns=2, width=3.6, height=2.4)
    for panel, task in zip(panels, ("copy", "add"), strict=True):
        seed = load_run(f"zoo:{task}/{CONSTRAINED}").config.seed
        digital = findings.digital.curves[memory, task, CONSTRAINED].loc[[seed]]
        network = findings.curves[memory, task, CONSTRAINED].loc[[seed]]
        for curve, look, name, side in (
            (network, "-", "network", -1),
            (digital, "-.", "digital", 1),
        ):
            (scores,) = 100 * curve.to_numpy()
            panel.plot(curve.columns, scores, look, color=colour)
            last = np.flatnonzero(scores >= 80)[-1]  # where it falls below 80 %
            at = np.interp(-80, -scores[last : last + 2], curve.columns[last : last + 2])
            where = {"ha": "left" if side > 0 else "right", "va": "center", "xytext": (7 * side, 0)}
            panel.annotate(name, (at, 80), textcoords="offset points", color=colour, **where)
        panel.plot(
            findings.floors[task].index,
            100 * findings.floors[task],
            ":",
            color=LIGHT["ink"],
            lw=0.8,
        )
        panel.axvspan(*report.study.training_lengths, color=LIGHT["ink"], alpha=0.07, lw=0)
        panel.axhline(95, color=LIGHT["faint"], lw=0.8, zorder=0)
        panel.set(title=task, xlim=(0, 500), ylim=(0, 103), xlabel="length")
    panels[0].set_ylabel("correct entries (%)")
    return figure


def pictures(report: Report, fresh: Fresh) -> Iterator[tuple[str, Figure]]:
    """The figures that the documents show, by file name."""
    main = report.main
    yield "copy-20k", fresh.picture()
    yield "digital-copy", digital_picture(report)
    yield "gallery-properties", properties_against_score(report.analysed, ("sort", "copy"))
    for mode in ("write", "read"):
        yield f"gallery-{mode}-modes", memory_modes(report.analysed, "copy", mode)
    yield "states-copy", state_picture(report.analysed, "copy", (BASELINE, CONSTRAINED))
    yield (
        "paper-100k",
        score_against_length(
            main, main.trained_memory, ("sort", "copy"), tuple(CONTROLLERS), digital=False
        ),
    )
    for task in ("sort", "copy", "add"):
        yield f"memory-{task}", score_by_memory(main, task)


def provenance(path: Path) -> str:
    """The facts about how the runs were made, with those of the pretrained models renewed."""
    facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    facts["pretrained"] = {
        name.removeprefix("zoo:"): {
            "seed": load_run(name).config.seed,
            "commit": zoo.read_origin(folder).commit,
            "training_minutes": round(load_run(name).status.seconds / 60),
        }
        for name, folder in sorted(zoo.pretrained().items())
    }
    return json.dumps(facts, indent=1) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--study", type=Path, default=STUDY)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args(arguments)
    report, fresh = Report(read_study(args.study)), Fresh(read_study(FRESH))
    for path, text in pages(report, fresh, args.docs).items():
        if not args.check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path} does not say what {args.study} says; run this script")
    if not args.check:
        facts = args.study.with_suffix(".json")
        facts.write_text(provenance(facts), encoding="utf-8")
        with style():
            for name, figure in pictures(report, fresh):
                path = args.docs / "images" / f"{name}.svg"
                path.write_text(standalone(svg(figure, name)), encoding="utf-8")


if __name__ == "__main__":
    main()
