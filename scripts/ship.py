"""Take what users need out of a study: its results without checkpoints, and its best models.

    python scripts/ship.py STUDY --commit HASH --results results/paper --zoo ZOO

The study need not be finished. Of every task and approach the zoo gets the trial with the highest
running mean of the score that selected its parameters, so no length beyond the one of selection
has a say in the choice; the parameters by another rule come with it if they reach a fifth further
with some memory. A model that is there already keeps the commit it was trained with.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from constrained_dnc.analysis.embeddings import embed_all
from constrained_dnc.choices import PAPER_RULE
from constrained_dnc.evaluation.memories import free_capacity_of
from constrained_dnc.published import max_length_of
from constrained_dnc.report import Report
from constrained_dnc.report.states import wanted_embeddings
from constrained_dnc.study import Study, read_study
from constrained_dnc.study.layout import (
    ANALYSIS,
    EMBEDDINGS,
    RESULTS,
    read_request,
    run_folder,
    write_request,
)
from constrained_dnc.training.disk import CONFIG, FREE_CAPACITY, SELECTED, STATUS
from constrained_dnc.training.run import Run, load_run
from constrained_dnc.zoo import RULE, SCORES

FURTHER = 1.2
"""Parameters of another rule than the zoo's come along if they reach that many times as far."""
DATA = (f"{RESULTS}/*.parquet", f"{ANALYSIS}/*.npz", f"{EMBEDDINGS}/*.npy")


def ship_results(study: Path, target: Path) -> None:
    """Copy what a report is made from, and name the study by its new place."""
    request = read_request(study)
    request["command"] = request["command"].replace(str(study), target.name)
    new = target.with_name(f".{target.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for pattern in DATA:
        for path in study.glob(pattern):
            copy = new / path.relative_to(study)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    write_request(new, request)
    shipped = read_study(new)
    wanted = wanted_embeddings(Report(shipped).analysed)
    embed_all(shipped, wanted, lambda *_: None)  # a minute less to wait
    shutil.rmtree(target, ignore_errors=True)
    new.replace(target)


def ship_models(folder: Path, zoo: Path, commit: str) -> list[str]:
    """Copy the best run of every task and approach; their names.

    A model that is there already takes part, also if the study no longer has its run.
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
        about = {"trials": sorted(seeds), "commit": shipped["commit"] if is_same else commit}
        if best.folder == target:
            (target / SCORES).write_text(json.dumps(shipped | about, indent=1) + "\n")
        else:
            _ship_model(study, best, target, about)
    return [f"{task}/{approach}" for task, approach in groups]


def _shipped(target: Path) -> dict[str, Any]:
    """What scores.json of the model that is there says."""
    path = target / SCORES
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _ship_model(study: Study, run: Run, target: Path, about: dict[str, object]) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    scores = _scores(study, run.config.run_id)
    rules: list[str] = [RULE]
    for rule in sorted(scores, key=lambda rule: rule != PAPER_RULE):  # the paper's before others
        if _reaches_further(scores, rule, rules):
            rules.append(rule)
    for rule in rules:
        free_capacity_of(run, run.selected(rule))  # makes sure that it is stored
    for name in (CONFIG, STATUS, *(SELECTED[rule] for rule in rules), FREE_CAPACITY):
        shutil.copyfile(run.folder / name, target / name)
    about |= {
        "trial": run.config.seed,
        "iterations": run.status.iteration,
        "iteration": run.selected(RULE).iteration,
        "scores": scores,
    }
    (target / SCORES).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _reaches_further(
    scores: dict[str, dict[str, dict[int, float]]], rule: str, others: list[str]
) -> bool:
    """Whether some maximum length is so much longer by this rule than by the others."""
    for memory, curve in scores[rule].items():
        longest = max(max_length_of(scores[other].get(memory, {})) for other in others)
        if (length := max_length_of(curve)) > 0 and length >= FURTHER * longest:
            return True
    return False


def _scores(study: Study, run_id: str) -> dict[str, dict[str, dict[int, float]]]:
    """Score by selection, memory and length."""
    words = dict(zip(study.memories, ("trained", "extended", "growing"), strict=True))
    rows = study.results[(study.results["run_id"] == run_id) & (study.results["batches"] > 0)]
    scores: dict[str, dict[str, dict[int, float]]] = {}
    for row in rows.to_dict("records"):
        curve = scores.setdefault(row["selection"], {}).setdefault(words[row["memory"]], {})
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
    asked = parser.parse_args()
    ship_results(asked.study, asked.results)
    names = ship_models(asked.study, asked.zoo, asked.commit)
    print(f"{asked.results}: {_megabytes(asked.results.rglob('*')):.1f} MB")
    print(f"{asked.zoo}: {_megabytes(asked.zoo.rglob('*')):.1f} MB, {', '.join(names)}")


if __name__ == "__main__":
    main()
