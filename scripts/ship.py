"""Take what users need out of a study: its results without checkpoints, and its best models.

    python scripts/ship.py STUDY --commit HASH --results results/paper --zoo ZOO

The study need not be finished. Of every task and approach the zoo gets the trial with the highest
running mean of the score that selected its parameters, so no length beyond the one of selection
has a say in the choice; parameters selected by another rule are added if they reach a fifth further
with some memory. A model that is in the zoo already keeps the commit it was trained with.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from constrained_dnc.cli.zoo import RULE
from constrained_dnc.config import RULES, SelectionRule
from constrained_dnc.evaluation.digital import digital_of
from constrained_dnc.evaluation.results import max_length
from constrained_dnc.files import read_json, write_json, write_table
from constrained_dnc.report import Report
from constrained_dnc.report.states import embed_all, wanted_embeddings
from constrained_dnc.study import Study, read_study
from constrained_dnc.study.study import EMBEDDINGS, STUDY
from constrained_dnc.training.folder import ANALYSES, CONFIG, DIGITAL, EVALUATION, SELECTED, STATUS
from constrained_dnc.training.run import Run, load_run
from constrained_dnc.zoo import read_origin

FURTHER = 1.2
"""How many times as far the parameters of another rule must reach to be shipped, too."""
MOST_STATES = 1024
"""Of a digital model to be shipped; a larger one is calibrated when it is used."""


def ship_results(folder: Path, target: Path) -> None:
    """Copy the files that a report is made from; the command in study.json has no local paths."""
    study = read_study(folder)
    request = {**study.stored, "command": re.sub(r"[^\s']*/", "", study.stored["command"])}
    new = target.with_name(f".{target.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    for run in study.members.values():
        copy = new / run.folder.relative_to(folder)
        copy.mkdir(parents=True)
        for name in (CONFIG, STATUS, EVALUATION, ANALYSES):
            if (run.folder / name).exists():
                shutil.copyfile(run.folder / name, copy / name)
    if (folder / EMBEDDINGS).exists():
        shutil.copytree(folder / EMBEDDINGS, new / EMBEDDINGS)
    write_json(new / STUDY, request)
    shipped = read_study(new)
    wanted = wanted_embeddings(Report(shipped).analysed)
    embed_all(shipped, wanted, lambda *_: None)  # a minute less to wait
    shutil.rmtree(target, ignore_errors=True)
    new.replace(target)


def ship_models(folder: Path, zoo: Path, commit: str) -> list[str]:
    """Copy the best run of every task and approach, and return their names.

    A model that is in the zoo already competes, also if the study no longer has its run.
    """
    study = read_study(folder)
    groups: dict[tuple[str, str], list[Run]] = {}
    for row in study.runs.reset_index().to_dict("records"):
        path = study.members[row["run_id"]].folder
        if not (path / SELECTED[RULE]).exists() or row["status"] != "finished":
            continue
        run = load_run(path)
        if run.status.iteration == row["iterations"]:  # else it is further on than its scores
            groups.setdefault((row["task"], row["approach"]), []).append(run)
    for (task, approach), runs in groups.items():
        target = zoo / task / approach
        seeds, shipped = {run.config.seed for run in runs}, None
        if target.exists():
            shipped, origin = load_run(target), read_origin(target)
            seeds |= {*origin.trials}
            if shipped.config.run_id not in [run.config.run_id for run in runs]:
                runs.append(shipped)
        best = max(runs, key=lambda run: (run.selected(RULE).running_mean or 0, -run.config.seed))
        is_same = (
            shipped is not None
            and shipped.config.run_id == best.config.run_id
            and shipped.status.iteration == best.status.iteration
        )
        if best.folder != target:
            _ship_model(study, best, target)
        own = {"commit": origin.commit if is_same else commit, "trials": sorted(seeds)}
        write_json(target / CONFIG, read_json(target / CONFIG) | {"origin": own})
    return [f"{task}/{approach}" for task, approach in groups]


def _ship_model(study: Study, run: Run, target: Path) -> None:
    """Copy a run without what only training needs, and its results in the study."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    results = study.results[study.results["run_id"] == run.config.run_id]
    rules: list[SelectionRule] = [RULE]
    for rule in RULES:
        if _reaches_further(results, rule, rules):
            rules.append(rule)
    for rule in rules:
        digital = digital_of(run, run.selected(rule))
        if digital.states is None or len(digital.states) <= MOST_STATES:
            shutil.copyfile(run.folder / DIGITAL[rule], target / DIGITAL[rule])
    for name in (CONFIG, STATUS, *(SELECTED[rule] for rule in rules)):
        shutil.copyfile(run.folder / name, target / name)
    write_table(target / EVALUATION, results)


def _reaches_further(results: pd.DataFrame, rule: str, others: Sequence[str]) -> bool:
    """Whether this rule has a maximum length that is at least a fifth longer."""
    network = results[results["inference"] == "network"]
    for _, rows in network.groupby("memory"):
        longest = [max_length(rows[rows["selection"] == name]) for name in (rule, *others)]
        if longest[0] > 0 and longest[0] >= FURTHER * max(longest[1:]):
            return True
    return False


def _megabytes(paths: Iterable[Path]) -> float:
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("study", type=Path)
    parser.add_argument("--commit", required=True, help="the commit that trained the runs")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--zoo", type=Path, required=True)
    args = parser.parse_args()
    ship_results(args.study, args.results)
    names = ship_models(args.study, args.zoo, args.commit)
    print(f"{args.results}: {_megabytes(args.results.rglob('*')):.1f} MB")
    print(f"{args.zoo}: {_megabytes(args.zoo.rglob('*')):.1f} MB, {', '.join(names)}")


if __name__ == "__main__":
    main()
