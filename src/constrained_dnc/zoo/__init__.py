"""Pretrained models that come with the package, named zoo:TASK/APPROACH or zoo:TASK/APPROACH-SEED.

A model is a run in the folder `models/TASK/APPROACH`, without what only training needs: with its
scores, and the parameters selected by score and, where they generalise to longer inputs, by another
rule. Its config.json also has its origin.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from constrained_dnc.errors import SettingError, did_you_mean
from constrained_dnc.files import corruption_named, read_json

PREFIX = "zoo:"
MODELS = Path(__file__).parent / "models"


@dataclass(frozen=True)
class Origin:
    """Where a pretrained model comes from."""

    commit: str
    """The version of the package that trained it."""
    trials: tuple[int, ...]
    """The seeds it was chosen from, by the score that selected its parameters."""


def pretrained() -> dict[str, Path]:
    """The folders of all models of the zoo by name."""
    folders = [path.parent for path in sorted(MODELS.glob("*/*/config.json"))]
    return {f"{PREFIX}{folder.parent.name}/{folder.name}": folder for folder in folders}


def is_name(run: str | Path) -> bool:
    """Whether this is the name of a pretrained model, not a folder."""
    return str(run).startswith(PREFIX)


def find(name: str | Path) -> Path:
    """The folder of the pretrained model with this name."""
    models, name = pretrained(), str(name)
    if not models:
        raise SettingError("this installation has no pretrained models")
    if name not in models:
        raise SettingError("pretrained model", name, ", ".join(models) + did_you_mean(name, models))
    return models[name]


def read_origin(folder: Path) -> Origin:
    """Where the pretrained model in a folder comes from."""
    path = folder / "config.json"
    stored = read_json(path)
    with corruption_named(path):
        return Origin(str(stored["origin"]["commit"]), tuple(map(int, stored["origin"]["trials"])))
