"""Take what users need out of a study: its results without checkpoints, and its best models.

    python scripts/ship.py STUDY --commit HASH --results results/paper --zoo ZOO

The study need not be finished. Of every task and approach the zoo gets the trial with the highest
running mean of the score that selected its parameters, so no length beyond the one of selection
has a say in the choice; parameters selected by another rule are added if they reach a fifth further
with some memory. A model that is in the zoo already keeps the commit it was trained with.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from constrained_dnc.config import RULES, SelectionRule, max_length_of
from constrained_dnc.evaluation.digital import digital_of
from constrained_dnc.files import read_json, write_json
from constrained_dnc.report import Report
from constrained_dnc.report.states import embed_all, wanted_embeddings
from constrained_dnc.study import Study, read_study
from constrained_dnc.study.layout import (
    ANALYSIS,
    EMBEDDINGS,
    RESULTS,
    STUDY,
    run_folder,
)
from constrained_dnc.training.folder import CONFIG, DIGITAL, SELECTED, STATUS
from constrained_dnc.training.run import Run, load_run
from constrained_dnc.zoo import RULE, SCORES

FURTHER = 1.2
"""How many times as far the parameters of another rule must reach to be shipped, too."""
MOST_STATES = 1024
"""Of a digital model to be shipped; a larger one is calibrated when it is used."""
DATA = (f"{RESULTS}/*.parquet", f"{ANALYSIS}/*.npz", f"{EMBEDDINGS}/*.npy")


def ship_results(study: Path, target: Path) -> None:
    """Copy the files that a report is made from; the command in study.json has no local paths."""
    request = read_json(study / STUDY)
    request["command"] = re.sub(r"[^\s']*/", "", request["command"])
    new = target.with_name(f".{target.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for pattern in DATA:
        for path in study.glob(pattern):
            copy = new / path.relative_to(study)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
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
        path = run_folder(folder, row["run_id"])
        if not (path / SELECTED[RULE]).exists() or row["status"] != "finished":
            continue
        run = load_run(path)
        if run.status.iteration == row["iterations"]:  # else it is further on than its scores
            groups.setdefault((row["task"], row["approach"]), []).append(run)
    for (task, approach), runs in groups.items():
        target = zoo / task / approach
        shipped = _shipped(target)
        seeds = {run.config.seed for run in runs} | set(shipped.get("trials", ()))
        if shipped and shipped["trial"] not in [run.config.seed for run in runs]:
            runs.append(load_run(target))
        best = max(runs, key=lambda run: (run.selected(RULE).running_mean or 0, -run.config.seed))
        same = shipped.get("trial"), shipped.get("iterations")
        is_same = same == (best.config.seed, best.status.iteration)
        metadata = {"trials": sorted(seeds), "commit": shipped["commit"] if is_same else commit}
        if best.folder == target:
            (target / SCORES).write_text(json.dumps(shipped | metadata, indent=1) + "\n")
        else:
            _ship_model(study, best, target, metadata)
    return [f"{task}/{approach}" for task, approach in groups]


def _shipped(target: Path) -> dict[str, Any]:
    """The content of scores.json of a model in the zoo."""
    path = target / SCORES
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _ship_model(study: Study, run: Run, target: Path, metadata: dict[str, object]) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    scores = _scores(study, run.config.run_id)
    rules: list[SelectionRule] = [RULE]
    for rule in RULES:
        if rule in scores and _reaches_further(scores, rule, rules):
            rules.append(rule)
    counts = {}
    for rule in rules:
        digital = digital_of(run, run.selected(rule))
        counts[rule] = digital.state_count
        if digital.states is None or len(digital.states) <= MOST_STATES:
            shutil.copyfile(run.folder / DIGITAL[rule], target / DIGITAL[rule])
    for name in (CONFIG, STATUS, *(SELECTED[rule] for rule in rules)):
        shutil.copyfile(run.folder / name, target / name)
    metadata |= {
        "trial": run.config.seed,
        "iterations": run.status.iteration,
        "iteration": run.selected(RULE).iteration,
        "state_counts": counts,
        "scores": scores,
    }
    (target / SCORES).write_text(json.dumps(metadata, indent=1) + "\n", encoding="utf-8")


def _reaches_further(
    scores: dict[str, dict[str, dict[int, float]]], rule: str, others: Sequence[str]
) -> bool:
    """Whether this rule has a maximum length that is at least a fifth longer."""
    for memory, curve in scores[rule].items():
        longest = max(max_length_of(scores[other].get(memory, {})) for other in others)
        if (length := max_length_of(curve)) > 0 and length >= FURTHER * longest:
            return True
    return False


def _scores(study: Study, run_id: str) -> dict[str, dict[str, dict[int, float]]]:
    """Score by selection, memory and length."""
    rows = study.results[study.results["inference"] == "network"]
    rows = rows[(rows["run_id"] == run_id) & (rows["batches"] > 0)]
    scores: dict[str, dict[str, dict[int, float]]] = {}
    for row in rows.to_dict("records"):
        curve = scores.setdefault(row["selection"], {}).setdefault(row["memory"], {})
        curve[int(row["length"])] = round(float(row["score"]), 6)
    return scores


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
