"""The report: tables, figures and one HTML page that needs nothing but itself."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib import resources
from itertools import groupby
from pathlib import Path
from string import Template

import numpy as np
from plotly.offline import get_plotlyjs
from rich.box import SIMPLE
from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

from constrained_dnc.analysis.embeddings import embed_all
from constrained_dnc.analysis.statistics import THRESHOLD
from constrained_dnc.report import figures, published, tables
from constrained_dnc.report.findings import Findings, find
from constrained_dnc.report.tables import Cell, Table
from constrained_dnc.report.verdicts import Verdict, judge_all
from constrained_dnc.report.wording import DASH, plural, thousands
from constrained_dnc.study import Curves, read_study

Progress = Callable[[str, int, int], None]
Image = tuple[figures.Drawing, bytes, bytes]

MARKS = {True: ("yes", "✓"), False: ("no", "✗"), None: ("open", "·")}


def build_report(study_directory: Path, progress: Progress | None = None) -> Path:
    """Write tables, figures and the page of a study, finished or not; return the page's path.

    `progress` is told the name of a stage, how much of it is done, and how much there is.
    """
    tell = progress or (lambda stage, done, total: None)
    findings = find(read_study(study_directory))
    directory = study_directory / "report"
    found_tables = tables.all_tables(findings)
    tables.write_tables(found_tables, directory / "tables")
    embed_all(findings.study, figures.wanted_embeddings(findings), tell)
    images = list(_draw_all(findings, directory / "figures", tell))
    page = directory / "index.html"
    page.write_text(compose(findings, found_tables, images), encoding="utf-8")
    return page


def terminal_table(study_directory: Path) -> Group:
    """Maximum lengths beside the paper's, and what the budget means, for a terminal."""
    findings = find(read_study(study_directory))
    table = RichTable(
        title="Maximum lengths: ours (paper's)",
        title_justify="left",
        box=SIMPLE,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("task", no_wrap=True)
    for name in (*findings.approaches, "factor"):
        header = name.replace("-baseline", "\nbaseline").replace("+", "\n+")
        table.add_column(header, justify="right", overflow="fold")
    for extended in (False, True):
        if not findings.at(extended).curves:
            continue
        if extended:
            table.add_section()
            table.add_row(f"{findings.study.extended_memory_size} slots:")
        for task, cells in tables.max_lengths(findings, extended).rows:
            table.add_row(task, *map(_terminal_cell, cells))
    warning = budget_warning(findings)
    return Group(table, Text(warning)) if warning else Group(table)


def budget_warning(findings: Findings) -> str:
    """What a budget below the paper's means; empty for the paper's own."""
    request = findings.study.request
    trials, iterations = int(request["trials"]), findings.iterations
    fewer = []
    if iterations < published.ITERATIONS:
        fewer.append(
            f"{thousands(iterations)} of the paper's {thousands(published.ITERATIONS)} iterations"
        )
    if trials < published.TRIALS:
        fewer.append(f"{plural(trials, 'trial')} instead of {published.TRIALS}")
    if findings.study.training_lengths != (5, 15):
        first, last = findings.study.training_lengths
        fewer.append(f"a smaller model, trained on lengths {first} to {last} instead of 5 to 15")
    if not fewer:
        return ""
    meaning = (
        "Generalisation to longer inputs comes late in training and varies between trials: this "
        "study shows that the machinery works, not whether a claim of the paper holds."
    )
    return f"Reduced budget: {', '.join(fewer)}. {meaning}"


def compose(findings: Findings, found: Sequence[Table], images: Sequence[Image]) -> str:
    """The text of the page."""
    template = Template(
        resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    )
    warning = budget_warning(findings)
    return template.substitute(
        title=escape(f"Constrained DNC: {findings.study.request.get('preset', 'study')}"),
        paper=escape(published.TITLE),
        banner=_banner(warning),
        facts=_facts(findings),
        verdicts=_verdicts(judge_all(findings)),
        chips=_chips(findings),
        charts=_chart_sections(findings),
        tables="".join(map(_table, found)) or _nothing("No results yet."),
        figures=_figure_sections(images),
        runs=_runs(findings),
        provenance=_provenance(findings),
        footer=escape(warning.partition(".")[0] or "The paper's budget"),
        data=_json(_chart_data(findings)),
        plotly=get_plotlyjs().replace("</script", "<\\/script"),
    )


def _draw_all(findings: Findings, directory: Path, tell: Progress) -> Iterable[Image]:
    drawings = figures.all_drawings(findings)
    for done, drawing in enumerate(drawings, start=1):
        with figures.style():
            figure = drawing.draw()
            light = figures.save(figure, directory, drawing.name)
            figures.darken(figure)
            dark = figures.png(figure)
        yield drawing, light, dark
        tell("figures", done, len(drawings))


def _terminal_cell(cell: Cell) -> str:
    ours = f"[bold]{cell.ours}[/bold]" if cell.bold else cell.ours
    return f"{ours} ({cell.paper})"


def _banner(warning: str) -> str:
    if not warning:
        return ""
    head, _, rest = warning.partition(":")
    return f'<p class="banner" role="note"><strong>{escape(head)}</strong>{escape(":" + rest)}</p>'


def _facts(findings: Findings) -> str:
    study, request = findings.study, findings.study.request
    planned = len(request["tasks"]) * len(request["approaches"]) * int(request["trials"])
    facts = {
        "tasks": ", ".join(findings.tasks) or DASH,
        "approaches": ", ".join(findings.approaches) or DASH,
        "runs": f"{len(study.runs)} with results, {planned} asked for",
        "trials": f"{request['trials']} per task and approach (paper: {published.TRIALS})",
        "iterations": thousands(findings.iterations)
        + f" (paper: {thousands(published.ITERATIONS)})",
        "slots": str(study.memory_size)
        + (f", extended to {study.extended_memory_size}" if study.extended_memory_size else ""),
        "training lengths": "{} to {} (paper: 5 to 15)".format(*study.training_lengths),
        "selection": " and ".join(
            _selection(name, study.unseen_length) for name in study.selections
        )
        or DASH,
    }
    return _definitions(facts)


def _selection(name: str, unseen_length: int) -> str:
    words = {
        "unseen": f"by the loss at length {unseen_length} (paper: 30)",
        "seen": "by the loss at training lengths only",
    }
    return words.get(name, name)


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    run = [verdict for verdict in verdicts if verdict.word != "not run"]
    words = [verdict.word for verdict in run]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(sorted(words)))
    summary = f"{len(run)} of {plural(len(verdicts), 'claim')} could be compared"
    parts = [f"<p>{escape(summary + (': ' + counts if counts else ''))}.</p>"]
    for topic, group in groupby(verdicts, key=lambda verdict: verdict.claim.topic):
        shown = list(group)
        told = [verdict for verdict in shown if verdict.word != "not run"]
        rest = [verdict for verdict in shown if verdict.word == "not run"]
        parts.append(f"<h3>{escape(topic)}</h3>")
        if told:
            parts.append(f'<ul class="verdicts">{"".join(map(_verdict, told))}</ul>')
        if rest:
            listed = "".join(map(_verdict, rest))
            parts.append(
                f"<details><summary>{len(rest)} not run</summary>"
                f'<ul class="verdicts">{listed}</ul></details>'
            )
    return "".join(parts)


def _verdict(verdict: Verdict) -> str:
    kind, mark = MARKS[None if verdict.caution else verdict.agrees]
    here = f"; here <b>{escape(verdict.here)}</b>, {escape(verdict.budget)}" if verdict.here else ""
    caution = f"<small>{escape(verdict.caution)}</small>" if verdict.caution else ""
    return (
        f'<li class="{kind}"><span class="mark" aria-hidden="true">{mark}</span><div>'
        f"{escape(verdict.claim.text)}: paper {escape(verdict.paper)}{here}: "
        f'<em class="word">{escape(verdict.word)}</em>{caution}</div></li>'
    )


def _chips(findings: Findings) -> str:
    return "".join(
        f'<button type="button" class="chip" aria-pressed="true" data-approach="{escape(name)}">'
        f'<i style="border-color:{figures.colour(name)};background:{_chip_fill(name)}"></i>'
        f"{escape(name)}</button>"
        for name in findings.approaches
        if any(of == name for _, of in findings.plain.curves)
    )


def _chip_fill(approach: str) -> str:
    return figures.colour(approach) if figures.dash(approach) == "-" else "none"


def _chart_sections(findings: Findings) -> str:
    parts = []
    for extended in (False, True):
        tasks = _charted_tasks(findings, extended)
        if not tasks:
            continue
        slots = findings.study.extended_memory_size if extended else findings.study.memory_size
        name = "extended memory" if extended else "the memory it was trained with"
        boxes = "".join(
            f'<figure class="chart"><figcaption>{escape(task)}</figcaption>'
            f'<div id="{_chart_id(task, extended)}" role="img" '
            f'aria-label="score against length, {escape(task)}, {slots} slots"></div></figure>'
            for task in tasks
        )
        parts.append(f'<h3>With {name} ({slots} slots)</h3><div class="charts">{boxes}</div>')
    return "".join(parts) or _nothing("No results yet.")


def _chart_data(findings: Findings) -> list[dict[str, object]]:
    return [
        {
            "id": _chart_id(task, extended),
            "log": extended,
            "slots": [
                size
                for size in (findings.study.memory_size, findings.study.extended_memory_size)
                if size and (extended or size == findings.study.memory_size)
            ],
            "threshold": 100 * THRESHOLD,
            "training": list(findings.study.training_lengths),
            "series": [
                _series(findings.at(extended).curves[task, name])
                for name in findings.approaches
                if (task, name) in findings.at(extended).curves
            ],
        }
        for extended in (False, True)
        for task in _charted_tasks(findings, extended)
    ]


def _series(curve: Curves) -> dict[str, object]:
    complete = ~np.isnan(curve.scores).any(axis=0)
    low, median, high = 100 * np.quantile(curve.scores[:, complete], [0.25, 0.5, 0.75], axis=0)
    return {
        "approach": curve.approach,
        "colour": figures.colour(curve.approach),
        "dash": "dash" if figures.dash(curve.approach) == "--" else "solid",
        "trials": curve.trials,
        "lengths": curve.lengths[complete].tolist(),
        "low": np.round(low, 2).tolist(),
        "median": np.round(median, 2).tolist(),
        "high": np.round(high, 2).tolist(),
    }


def _charted_tasks(findings: Findings, extended: bool) -> list[str]:
    found = {task for task, _ in findings.at(extended).curves}
    return [task for task in findings.tasks if task in found]


def _chart_id(task: str, extended: bool) -> str:
    safe = "".join(letter if letter.isalnum() else "-" for letter in task)
    return f"chart-{safe}-{'extended' if extended else 'plain'}"


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    body = "".join(
        f'<tr><th scope="row">{escape(label)}</th>{"".join(map(_cell, cells))}</tr>'
        for label, cells in table.rows
    )
    warnings = "".join(f'<p class="warning">{escape(text)}</p>' for text in table.warnings)
    return (
        f'<section class="table" id="table-{table.name}"><h3>{escape(table.title)}</h3>{warnings}'
        f'<div class="scroll" tabindex="0"><table><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div><p class=caption>{escape(table.caption)} "
        f'Files: <a href="tables/{table.name}.csv">CSV</a>, '
        f'<a href="tables/{table.name}.tex">LaTeX</a>.</p></section>'
    )


def _cell(cell: Cell) -> str:
    tag = "b" if cell.bold else "i" if cell.italic else "span"
    paper = f"<b>{escape(cell.paper)}</b>" if cell.paper_bold else escape(cell.paper)
    note = f"<small>{escape(cell.note)}</small>" if cell.note else ""
    difference = "" if cell.difference == DASH else f" ({escape(cell.difference)})"
    return (
        f'<td><{tag} class="ours">{escape(cell.ours)}</{tag}>{note}'
        f'<small class="paper">paper {paper}{difference}</small></td>'
    )


def _figure_sections(images: Sequence[Image]) -> str:
    parts = []
    for number, (drawing, light, dark) in enumerate(images):
        shown = " open" if number < 4 else ""
        parts.append(
            f"<details{shown}><summary>{escape(drawing.title)}</summary><figure><picture>"
            f'<source media="(prefers-color-scheme: dark)" srcset="{_data_uri(dark)}">'
            f'<img src="{_data_uri(light)}" alt="{escape(drawing.title)}"></picture>'
            f"<figcaption>{escape(drawing.caption)} "
            f'Files: <a href="figures/{drawing.name}.png">PNG</a>, '
            f'<a href="figures/{drawing.name}.svg">SVG</a>.</figcaption></figure></details>'
        )
    return "".join(parts) or _nothing("No figures: no run has results.")


def _runs(findings: Findings) -> str:
    study = findings.study
    diverged = [run for run in study.runs.values() if run.status != "finished"]
    skipped = [run for run in study.runs.values() if run.skipped_updates]
    lists = {
        "Failed": [
            f"{failure.get('run_id')} ({failure.get('task')}, {failure.get('approach')}, trial "
            f"{failure.get('seed')}): {failure.get('reason')}, attempts: {failure.get('attempts')}"
            for failure in study.failures
        ],
        "Diverged (counted with the parameters selected before)": [
            f"{run.run_id} ({run.task}, {run.approach}, trial {run.seed}): {run.status} after "
            f"{plural(run.iterations, 'iteration')}"
            for run in diverged
        ],
        "With skipped updates (non-finite gradients)": [
            f"{run.run_id} ({run.task}, {run.approach}, trial {run.seed}): "
            f"{plural(run.skipped_updates, 'update')} skipped"
            for run in skipped
        ],
        "Missing": study.missing(),
    }
    parts = []
    for name, items in lists.items():
        listed = "".join(f"<li>{escape(item)}</li>" for item in items)
        count = f" ({len(items)})" if items else ""
        content = f"<ul>{listed}</ul>" if items else "<p>None.</p>"
        parts.append(f"<h3>{escape(name)}{count}</h3>{content}")
    return "".join(parts)


def _provenance(findings: Findings) -> str:
    request = findings.study.request
    facts = {
        "made on": str(request.get("created", DASH)),
        "machine": str(request.get("platform", DASH)),
        **{name: str(version) for name, version in dict(request.get("versions") or {}).items()},
    }
    command = escape(str(request.get("command", DASH)))
    return f'<pre class="scroll" tabindex="0"><code>{command}</code></pre>{_definitions(facts)}'


def _definitions(facts: dict[str, str]) -> str:
    entries = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
    return f"<dl>{entries}</dl>"


def _nothing(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _data_uri(image: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(image).decode("ascii")


def _json(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")
