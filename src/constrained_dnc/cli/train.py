"""The command train."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from constrained_dnc.cli.parsing import (
    Backend,
    Flag,
    Selection,
    Threads,
    TrustCode,
    is_run,
    option,
    value_of,
)
from constrained_dnc.cli.progress import ProgressBar
from constrained_dnc.cli.settings import ConfigFile, read_settings, with_settings
from constrained_dnc.config import (
    PRESETS,
    Config,
    EvaluationConfig,
    LoggerChoice,
    PresetName,
    Start,
    TrainingConfig,
    as_dict,
    get_preset,
    make_config,
    run_name,
)
from constrained_dnc.errors import SettingError, one_of
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.parts import APPROACHES, Approach
from constrained_dnc.plugins import is_import_path

DIVERGED = 3
"""The exit code of a run that diverged."""
_PRESET = "Defaults of all options below. On one core, "
_PRESET += ", ".join(f"{preset.name} takes {preset.run_takes}" for preset in PRESETS.values())
_PRESET += "; paper is the paper's setting."
_FROM = tyro.conf.arg(
    name="from",
    metavar="RUN",
    help="Start from the parameters of a run, or of a pretrained model such as zoo:sort/compr+reg. "
    "Its settings become the defaults; with --preset, only its approach and sizes.",
    help_behavior_hint="",
)


@dataclass(frozen=True)
class Train:
    """Train one model; the same command resumes a run that was stopped.

    `cdnc train --run-dir DIR` alone resumes it, too. The defaults shown are those of the preset and
    the approach: `cdnc train --preset paper --help` shows the paper's.
    """

    task: Annotated[str, tyro.conf.Positional, option(metavar="TASK")] = ""
    """A task: its name, package.module:Class or file.py:Class."""
    preset: Annotated[PresetName, tyro.conf.arg(help=_PRESET)] = "demo"
    approach_name: Annotated[str, tyro.conf.arg(name="approach", metavar="NAME")] = "round+reg"
    """A named approach, as `cdnc show` lists them, or a user-defined one as file.py:NAME."""
    seed: int = 0
    """Determines the initial parameters and every batch."""
    run_dir: Annotated[Path | None, option()] = None
    """The run directory; by default runs/TASK-APPROACH-SEED, to which --from adds -tuned."""
    restart: Flag = False
    """Start over: the run in the run directory is moved aside."""
    config: ConfigFile = None
    start: Annotated[Path | None, _FROM] = None
    selection: Selection = None
    log: Annotated[tuple[LoggerChoice, ...], option()] = ()
    """One or more loggers that also receive the metrics."""
    backend: Backend = "auto"
    threads: Threads = None
    trust_code: TrustCode = False
    approach: Annotated[Approach, tyro.conf.AvoidSubcommands] = APPROACHES["round+reg"]
    """A user-defined combination of parts; it needs a new name."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """Sizes and constants of the DNC."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How the parameters are trained."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """Which lengths `cdnc evaluate` scores, on how many samples."""
    stored_start: Annotated[Start | None, tyro.conf.Suppress] = None

    @classmethod
    def defaults(cls, arguments: list[str]) -> Train:
        """The settings of the preset and the approach, or of the run that is to be resumed."""
        folder, origin = value_of(arguments, "--run-dir", ""), value_of(arguments, "--from", "")
        preset: Any = value_of(arguments, "--preset", cls.preset)
        name = value_of(arguments, "--approach", cls.approach_name)
        chosen = {"preset": preset, "approach_name": name}
        is_named = not "".join(arguments[:1]).startswith("-")  # the task
        is_named = is_named or bool({"--preset", "--approach", "--config"} & set(arguments))
        if not origin and (is_named or not folder or not is_run(folder)):
            config = replace(make_config("sort", _find_approach(name), preset=preset), task="")
            return cls._of(_with_file(config, arguments), **chosen)
        from constrained_dnc.training.run import load_run  # noqa: PLC0415 - slow to import

        config = load_run(origin or folder, trust_code="--trust-code" in arguments).config
        if not origin:
            return cls._of(config, stored_start=config.start)
        if "--approach" in arguments:
            config = replace(config, approach=_find_approach(name))
        if "--preset" in arguments:
            _, training, evaluation = get_preset(preset).parts
            config = replace(config, training=training, evaluation=evaluation)
        config = replace(config, seed=cls.seed, start=None)
        return cls._of(_with_file(config, arguments), **chosen)

    @classmethod
    def _of(cls, config: Config, **settings: Any) -> Train:
        names = ("task", "approach", "seed", "model", "training", "evaluation")
        return cls(**{name: getattr(config, name) for name in names} | settings)

    def run(self) -> int:
        """Train with progress, then print how the run ended."""
        if not self.task:
            where = f"{self.run_dir} holds no run to resume, and " if self.run_dir else ""
            raise SettingError(f"{where}TASK is missing; see cdnc train --help")
        if self.selection and not self.start:
            raise SettingError("--selection needs --from")
        parts = (self.model, self.training, self.evaluation)
        config = Config(self.task, self.approach, self.seed, *parts, self.stored_start)
        name = run_name(config) + ("-tuned" if self.start else "")
        folder = self.run_dir or Path("runs", name)
        if self.start and self.start.resolve() == folder.resolve():
            raise SettingError("--from and --run-dir name the same run; choose another --run-dir")
        with ProgressBar("iteration") as bar:
            from constrained_dnc.training.folder import ENDED  # noqa: PLC0415
            from constrained_dnc.training.loop import train  # noqa: PLC0415 - slow to import
            from constrained_dnc.training.parameters import start_of  # noqa: PLC0415
            from constrained_dnc.training.process import use_compilation_cache  # noqa: PLC0415
            from constrained_dnc.training.run import load_run, open_run  # noqa: PLC0415

            use_compilation_cache()
            model = None
            if self.start:
                origin = load_run(self.start, trust_code=self.trust_code)
                model, record = start_of(origin, self.selection)
                config = replace(config, start=record)
            try:
                status = train(
                    config,
                    folder,
                    backend=self.backend,
                    threads=self.threads,
                    observer=bar,
                    restart=self.restart,
                    start=model,
                    log=self.log,
                ).status
            except KeyboardInterrupt:  # `train` has said how to resume, unless the run has ended
                if not is_run(folder) or open_run(folder).status.state not in ENDED:
                    return 130
                status = open_run(folder).status
        best = ((rule, at) for rule, at in status.best_iteration.items() if at is not None)
        selected = ", ".join(f"{at} by {rule}" for rule, at in best) or "none"
        print(
            f"{status.state} after iteration {status.iteration}: {status.reason}; "
            f"selected iterations: {selected}; skipped updates: {status.skipped_updates}"
        )
        return DIVERGED if status.state == "diverged" else 0


def _with_file(config: Config, arguments: list[str]) -> Config:
    """The config with the settings of the file that --config names, if it does."""
    values = read_settings(arguments)
    if values.pop("start", None) and "--from" not in arguments:
        raise SettingError("--config names a run that began with trained parameters; add --from")
    if "--approach" in arguments:
        values.pop("approach", None)
    elif isinstance(values.get("approach"), str):
        values["approach"] = as_dict(_find_approach(values["approach"]))
    return with_settings(config, values, arguments) if values else config


def _find_approach(name: str) -> Approach:
    """A built-in approach, or one in a user's file."""
    if name in APPROACHES:
        return APPROACHES[name]
    if not name.endswith(".py") and not is_import_path(name):
        accepted = f"{one_of(APPROACHES, name)}, or file.py:NAME for a user-defined one"
        raise SettingError("approach", name, accepted)
    from constrained_dnc.study.approaches import find_approaches  # noqa: PLC0415 - slow to import

    approaches = find_approaches([name])
    if len(approaches) > 1:
        names = ", ".join(approach.name for approach in approaches)
        raise SettingError(f"{name} has several approaches; choose one of them: {names}")
    return approaches[0]
