"""Sharing a run on the Hugging Face Hub: a repository is a run directory with a model card."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from constrained_dnc.errors import RunError, SettingError, first_line
from constrained_dnc.files import failure_named, make_folder, read_table, write_atomically
from constrained_dnc.training import folder as files
from constrained_dnc.training.run import Run, load_run

TRAINING_ONLY = {*files.CHECKPOINTS, files.LOCK, files.COMPLETING, files.FAILURE}
TRAINING_ONLY |= {files.NONFINITE, files.TENSORBOARD, files.WANDB}
CARD = """---
library_name: constrained-dnc
tags:
- differentiable-neural-computer
- memory-augmented-neural-network
---

# {task.name}, {config.approach.name}

A network with an external memory, trained with constrained-dnc (run {config.run_id}).

- Task: {task.summary}
- Approach: {summary}
- Memory: {config.model.memory_size} slots of {config.model.word_size} numbers
- Training: {iterations} iterations, lengths {lengths}, seed {config.seed}
- Parameters selected by (iteration): {rules}

```python
from constrained_dnc import from_pretrained, predict

run = from_pretrained("{name}")
print(predict(run, "{problem}"))
```
"""


def save_pretrained(run: Run, folder: str | Path, name: str = "FOLDER") -> None:
    """Copy a run without what only training needs, and write its model card.

    Args:
        run: A run with selected parameters.
        folder: The folder to make; it must be empty or absent. `load_run` opens it.
        name: What the model card calls the run in its example.
    """
    folder, card = Path(folder), model_card(run, name)
    make_folder(folder, "folder")
    if any(folder.iterdir()):
        raise SettingError(f"{folder} is not empty; save the run in another folder")
    with failure_named(folder, "written"):
        shutil.copytree(run.folder, folder, ignore=_private, dirs_exist_ok=True)
    write_atomically(folder / "README.md", card.encode())


def _private(folder: str, names: list[str]) -> list[str]:
    """Names of what is not shared; a link may lead to any file of this machine."""
    return [n for n in names if n in TRAINING_ONLY or n[0] == "." or Path(folder, n).is_symlink()]


def push_to_hub(run: Run, repository: str, *, private: bool = False) -> str:
    """Upload a run to the Hugging Face Hub and return the address of its page.

    Args:
        run: A run with selected parameters.
        repository: OWNER/NAME; it is made if it does not exist.
        private: Whether a new repository is visible to its owner only.
    """
    with TemporaryDirectory() as folder:
        save_pretrained(run, folder, repository)
        address = _call("create_repo", repository, private=private, exist_ok=True)
        _call("upload_folder", repo_id=repository, folder_path=folder)
    return str(address)


def from_pretrained(
    name: str | Path, *, revision: str | None = None, trust_code: bool = False
) -> Run:
    """Open a run of the Hugging Face Hub, or a folder that `save_pretrained` made.

    Args:
        name: OWNER/NAME on the Hub, or a folder.
        revision: A branch, a tag or a commit on the Hub; by default `main`.
        trust_code: Whether user-defined code that the run names may be executed, see `load_run`.
    """
    if not Path(name).is_dir():
        name = _call("snapshot_download", str(name), revision=revision)
    return load_run(name, trust_code=trust_code)


def _call(function: str, *args: Any, **settings: Any) -> Any:
    """Call a function of the package huggingface_hub."""
    try:
        return getattr(importlib.import_module("huggingface_hub"), function)(*args, **settings)
    except ImportError as error:
        need = "the Hub needs the package huggingface_hub"
        raise SettingError(f"{need}; install it with pip install 'constrained-dnc[hub]'") from error
    except Exception as error:  # no network, no account, no such repository
        raise RunError(f"{function} of the Hugging Face Hub failed: {first_line(error)}") from error


def model_card(run: Run, name: str) -> str:
    """What a run is, how to use it, and its scores, as Markdown with metadata for the Hub."""
    config, task = run.config, run.task
    lengths = config.training.min_length, config.training.max_length
    facts = {
        "summary": config.approach.summary(),
        "iterations": run.status.iteration,
        "lengths": "{} to {}".format(*lengths),
        "rules": ", ".join(f"{rule} ({run.selected(rule).iteration})" for rule in run.rules),
        "problem": task.format_problem(task.sample(0, 1, lengths[1]).problems[0]),
    }
    card = CARD.format(name=name, config=config, task=task, **facts)
    if not (run.folder / files.EVALUATION).exists():
        return card
    rule, memory = run.default_rule, str(config.model.memory_size)
    rows = read_table(run.folder / files.EVALUATION).dropna(subset="score").sort_values("length")
    rows = rows[(rows.selection == rule) & (rows.memory == memory) & (rows.inference == "network")]
    card += f"\n## Scores\n\nSelected by {rule}, {memory} slots.\n\n"
    card += "| input length | score | whole answers | floor |\n|---|---|---|---|\n"
    for row in rows[:: len(rows) // 12 + 1].to_dict("records"):  # a dozen lengths
        scores = (f"{row[name]:.3f}" for name in ("score", "sequence_accuracy", "floor"))
        card += f"| {row['length']} | {' | '.join(scores)} |\n"
    return card
