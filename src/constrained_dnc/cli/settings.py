"""Settings from a file, for the option --config."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import tyro

from constrained_dnc.cli.parsing import value_of
from constrained_dnc.config import Config, as_dict, with_absolute_paths
from constrained_dnc.errors import RunError, SettingError, did_you_mean
from constrained_dnc.files import corruption_named, read_file, read_json
from constrained_dnc.plugins import require_trust

ConfigFile: TypeAlias = Annotated[
    Path | None,
    tyro.conf.arg(
        name="config",
        metavar="FILE",
        help="Settings in JSON or YAML, as a run's config.json has them, or some of them; options "
        "come before them, and they before the preset.",
        help_behavior_hint="",
    ),
]
_YAML_FLOAT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
"""1e-3, which YAML 1.1 takes for text."""


def read_settings(arguments: Sequence[str]) -> dict[str, Any]:
    """The settings in the file that --config names; none if it is not among the arguments."""
    name = value_of([*arguments], "--config", "")
    if not name:
        return {}
    path = Path(name)
    values = read_json(path) if path.suffix == ".json" else _read_yaml(path)
    return dict(values["config"]) if "run_id" in values else values


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - only if there is such a file

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Reads data, never objects."""

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _YAML_FLOAT, list("-+0123456789"))
    text = read_file(path)
    try:
        with corruption_named(path):
            values = yaml.load(text, Loader)
    except RunError as error:
        mark = getattr(error.__cause__, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise RunError(f"{error}{where}") from error
    if not isinstance(values, dict):
        raise RunError(f"{path} cannot be read: it has no settings, such as seed: 3")
    return values


def with_settings(config: Config, values: Mapping[str, Any], arguments: Sequence[str]) -> Config:
    """A config with the settings of a file.

    Args:
        config: Has all other settings.
        values: The settings, by the names of `Config` and its parts.
        arguments: The command line: --trust-code allows the file to name unknown code.
    """
    path = Path(value_of([*arguments], "--config", ""))
    base = as_dict(config)
    _update(base, values, f"{path} has a setting ")
    updated = with_absolute_paths(Config.from_dict(base))
    unknown = [name for name in updated.user_code if name not in config.user_code]
    require_trust(path, unknown, {}, trust_code="--trust-code" in arguments)
    return updated


def _update(base: dict[str, Any], values: Mapping[str, Any], prefix: str) -> None:
    """Replace the values that are given, within sections too; unknown names are refused."""
    for name, value in values.items():
        if name not in base:
            hint = did_you_mean(name, base)
            raise SettingError(f"{prefix}{name} that does not exist{hint}")
        if isinstance(value, dict) and isinstance(base[name], dict) and "kind" not in value:
            _update(base[name], value, f"{prefix}{name}.")
        else:
            base[name] = value
