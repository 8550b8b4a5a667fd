"""Smoke studies: planned, or by `cdnc study` in processes that tests may kill."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from constrained_dnc.config import RULES, SMOKE, Parts, SelectionRule
from constrained_dnc.files import read_json
from constrained_dnc.study.plan import Plan, open_study, requested_configs
from constrained_dnc.study.trial import Wanted

PATIENCE = 900.0
"""Seconds before a test gives up waiting, on a machine that may be busy."""


def open_smoke(
    folder: Path,
    *names: Sequence[str],
    iterations: int = 60,
    command: Sequence[str] = (),
    parts: Parts = SMOKE.parts,
    rules: Sequence[SelectionRule] = RULES,
    analyses: bool = True,
    **settings,
) -> Plan:
    """Create or resume a study of the preset smoke; `names` are tasks, then approaches."""
    model, training, evaluation = parts
    parts = model, replace(training, iterations=iterations), evaluation
    configs = requested_configs("smoke", *names, parts=parts, **settings)
    wanted = Wanted(tuple(rules), analyses=analyses)
    return open_study(folder, configs, wanted, preset="smoke", command=command)


def start(study: Path, *options: str) -> subprocess.Popen:
    """A smoke study in a process group of its own."""
    command = [sys.executable, "-m", "constrained_dnc", "study", "--preset", "smoke"]
    return subprocess.Popen(
        [*command, "--study", str(study), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    """Exit code, results and what was reported on the way: no complaint of a library among it."""
    output, errors = process.communicate(timeout=PATIENCE)
    ours = re.sub(r"(SettingError: .*)?OSError: no data", "", errors)
    assert not re.search("Traceback|Error:|Warning|distributed", ours)
    return process.returncode, output, errors


def results(study: Path) -> dict:
    """Rows and analysis arrays of a study, by file."""
    found = {}
    for run in study.glob("runs/*"):
        found[run.name, "scores"] = pd.read_parquet(run / "evaluation.parquet").to_dict("records")
        found[run.name, "analyses"] = dict(np.load(run / "analyses.npz"))
    return found


def wait_for(what: Callable[[], object]) -> None:
    """Look until something is true."""
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def is_training(study: Path) -> bool:
    """Whether some run has a checkpoint and is not finished."""
    states = [read_json(path) for path in study.glob("runs/*/status.json")]
    return any(state["state"] == "training" and state["iteration"] > 0 for state in states)


def iterations_done(study: Path) -> int:
    """Of all runs together, by their last checkpoints."""
    return sum(read_json(path)["iteration"] for path in study.glob("runs/*/status.json"))


def owners(study: Path) -> set[int]:
    """The processes that are working on runs, or worked on them last."""
    locks = [path.read_text() for path in study.glob("runs/*/completing.lock")]
    return {int(text.split()[1]) for text in locks if text}


def is_alive(process: int) -> bool:
    """Whether it is there and not a zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"
