"""Commands for studies: study, gather, report, results."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from constrained_dnc.cli.parsing import Flag, TrustCode, option, value_of
from constrained_dnc.cli.progress import ProgressBar
from constrained_dnc.cli.settings import ConfigFile, read_settings, with_settings
from constrained_dnc.cli.terminal import console, print_stderr
from constrained_dnc.config import (
    INFERENCES,
    PRESETS,
    RULES,
    Config,
    EvaluationConfig,
    Inference,
    Parts,
    PresetName,
    SelectionRule,
    TrainingConfig,
    get_preset,
)
from constrained_dnc.errors import SettingError, printable
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.parts import APPROACHES, Approach
from constrained_dnc.plugins import is_import_path, require_trust

if TYPE_CHECKING:
    from constrained_dnc.study.executors import OpenExecutor
    from constrained_dnc.study.plan import Plan
    from constrained_dnc.study.trial import Wanted

_PRESET = "Defaults of all options below. "
_PRESET += "; ".join(f"{p.name}: {p.study_takes}, {p.result}" for p in PRESETS.values()) + "."
ENDING = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
"""Signals that end a study and its workers, as Ctrl-C does."""
StudyPath = Annotated[
    Path, tyro.conf.Positional, option("A study directory, finished or not.", "STUDY")
]


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """The options of the commands that complete runs."""

    workers: Annotated[int | None, option()] = None
    """Processes on this machine; by default one per core."""
    no_analyses: Flag = False
    """Leave out the analyses of states and memory access, their figures, and state counts."""
    trust_code: TrustCode = False

    def complete(self, plan: Plan, open_executor: OpenExecutor | None = None) -> int:
        """Complete every run, then write the report; 1 if a run failed."""
        from constrained_dnc.study.executors import choose_executor  # noqa: PLC0415 - slow to import

        signals = [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, signal.default_int_handler) for number in signals}
        try:
            _execute(plan, open_executor or choose_executor(self.workers), self.workers)
            write_report(plan.folder)
        except KeyboardInterrupt:
            print_stderr("stopped; the same command resumes from here")
            return 130
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return _print_failures(plan.folder)


@dataclass(frozen=True)
class Study(StudyOptions):
    """Train, evaluate and analyse tasks x approaches x trials, then write the report.

    The same command resumes a study that was stopped; `cdnc study --study DIR` alone resumes
    everything that was ever requested of the study in DIR.
    """

    preset: Annotated[PresetName, tyro.conf.arg(help=_PRESET)] = "quick"
    tasks: Annotated[tuple[str, ...], option()] = ()
    """Which tasks; by default the preset's."""
    approaches: Annotated[tuple[str, ...], option()] = ()
    """Names, all, or user-defined ones as file.py or file.py:NAME; by default the preset's."""
    trials: Annotated[int | None, option()] = None
    """Seeds per task and approach; by default the preset's."""
    study: Annotated[Path | None, option()] = None
    """The study directory; by default studies/PRESET."""
    dry_run: Flag = False
    """Only say what it takes: runs, core-hours by a measurement on this machine, time and disk."""
    config: ConfigFile = None
    scheduler: Annotated[str | None, option()] = None
    """Use the workers of a running Dask scheduler instead, such as tcp://head:8786."""
    executor: Annotated[str | None, option()] = None
    """Use another concurrent.futures.Executor: package.module:callable, which returns one."""
    rules: Annotated[tuple[SelectionRule, ...], option()] = RULES
    """Selection rules whose parameters are evaluated; score alone for a quick look."""
    inference: Annotated[tuple[Inference, ...], option()] = ("network",)
    """How models run when they are scored: network, digital, or both."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """Sizes and constants of the DNC."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How the parameters are trained."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """Which lengths are scored, on how many samples."""
    approach: tyro.conf.Suppress[Approach | None] = None
    """An approach that a file of settings describes."""
    arguments: tyro.conf.Suppress[tuple[str, ...]] = ()
    """The whole command line."""

    @classmethod
    def defaults(cls, arguments: list[str]) -> Study:
        """The settings of the preset or, without one, of the study in the folder."""
        preset: Any = value_of(arguments, "--preset", cls.preset)
        folder, chosen = Path(value_of(arguments, "--study", "")), get_preset(preset)
        is_stored = "--preset" not in arguments and "--study" in arguments
        parts = (is_stored and _stored_parts(folder)) or chosen.parts
        settings: Any = dict(zip(("model", "training", "evaluation"), parts, strict=True))
        settings |= {"rules": chosen.rules, "no_analyses": not chosen.has_analyses}
        return _with_file(cls(preset=preset, arguments=tuple(arguments), **settings), arguments)

    def run(self) -> int:
        """Complete every run, then write the report; 1 if a run failed."""
        for name in ("tasks", "approaches", "rules", "inference"):
            if f"--{name}" in self.arguments and not getattr(self, name):
                raise SettingError(f"--{name} needs at least one name")
        from constrained_dnc.study.executors import choose_executor  # noqa: PLC0415 - slow to import
        from constrained_dnc.study.plan import open_study  # noqa: PLC0415

        open_executor = choose_executor(self.workers, self.scheduler, self.executor)
        folder = self.study or Path("studies", self.preset)
        stored, configs, wanted = self._requested(folder)
        if self.dry_run:
            return _describe(folder, configs, wanted, self.workers)
        if self.scheduler is not None:
            with open_executor():  # refuse a wrong address before the study is made
                pass
        command = ["study", *self.arguments]
        plan = stored or open_study(folder, configs, wanted, preset=self.preset, command=command)
        return self.complete(plan, open_executor)

    def _requested(self, folder: Path) -> tuple[Plan | None, Sequence[Config], Wanted]:
        """The plan of a study if only its folder is named; the configs of what is requested."""
        from constrained_dnc.study.plan import (  # noqa: PLC0415 - slow to import
            reopen_study,
            requested_configs,
        )
        from constrained_dnc.study.trial import Wanted  # noqa: PLC0415
        from constrained_dnc.training.loop import check_config  # noqa: PLC0415

        options = {argument for argument in self.arguments if argument.startswith("--")}
        tasks, trials, first_seed = self.tasks, self.trials, get_preset(self.preset).first_seed
        approaches: Sequence[str | Approach] = self.approaches
        approaches = approaches or ([self.approach] if self.approach else ())
        wanted = Wanted(
            tuple(rule for rule in RULES if rule in self.rules),
            tuple(inference for inference in INFERENCES if inference in self.inference),
            not self.no_analyses,
        )
        if self.study and "--preset" not in options and (folder / "study.json").is_file():
            stored = reopen_study(folder, trust_code=self.trust_code)
            configs = [run.config for run in stored.runs]
            if options <= SAME_RUNS:
                return stored, configs, stored.wanted
            wanted = Wanted(
                wanted.rules if "--rules" in options else stored.wanted.rules,
                wanted.inferences if "--inference" in options else stored.wanted.inferences,
                wanted.analyses and stored.wanted.analyses,
            )
            if not (tasks or approaches or trials):
                has_budget = "--training.iterations" in options
                return None, [self._changed(config, has_budget) for config in configs], wanted
            tasks = tasks or tuple(config.task for config in configs)
            approaches = approaches or tuple(config.approach for config in configs)
            seeds = {config.seed for config in configs}
            first_seed, trials = min(seeds), trials or len(seeds)
        parts = (self.model, self.training, self.evaluation)
        requested = requested_configs(
            self.preset, tasks, approaches, trials, first_seed=first_seed, parts=parts
        )
        for config in {config.approach.name: config for config in requested}.values():
            check_config(config)  # before anything is written
        return None, requested, wanted

    def _changed(self, config: Config, has_budget: bool) -> Config:
        """The config of a run of the study with the settings of the command line."""
        training = self.training
        if not has_budget:
            training = replace(training, iterations=config.training.iterations)
        return replace(config, model=self.model, training=training, evaluation=self.evaluation)


SAME_RUNS = {"--study", "--workers", "--scheduler", "--executor", "--trust-code", "--dry-run"}
"""Options that ask for nothing new of a study."""


def _describe(folder: Path, configs: Sequence[Config], wanted: Wanted, workers: int | None) -> int:
    """Say what completing these runs will take; nothing is written."""
    from constrained_dnc.model.config import available_cores  # noqa: PLC0415 - slow to import
    from constrained_dnc.study import read_study  # noqa: PLC0415
    from constrained_dnc.study.estimate import describe, iterations_left  # noqa: PLC0415
    from constrained_dnc.study.plan import planned_runs  # noqa: PLC0415
    from constrained_dnc.training.process import use_compilation_cache  # noqa: PLC0415

    use_compilation_cache()
    study = read_study(folder) if (folder / "study.json").is_file() else None
    ids = {config.run_id for config in configs}
    planned = planned_runs(folder, study, configs).values()
    left = [
        (config, iterations_left(run, config, wanted))
        for run, config in planned
        if config.run_id in ids
    ]
    to_do = [(config, iterations) for config, iterations in left if iterations is not None]
    print(f"study {folder}, not begun: this is a dry run" if study is None else f"study {folder}")
    for line in describe(to_do, len(configs), wanted, workers or available_cores()):
        print(line, flush=True)
    return 0


def _with_file(study: Study, arguments: list[str]) -> Study:
    """The options of a study with the settings of the file that --config names, if it does."""
    values = read_settings(arguments)
    if not values:
        return study
    if values.pop("start", None):
        raise SettingError("--config names a run that began with trained parameters: not a study's")
    values.pop("seed", None)  # of a run: a study has several
    changes: dict[str, Any] = {n: values.pop(n) for n in ("tasks", "approaches") if n in values}
    for name, names in changes.items():
        if not (isinstance(names, list) and all(isinstance(word, str) for word in names)):
            raise SettingError(name, names, "a list of names")
        changes[name] = tuple(names)
    if "trials" in values:
        changes["trials"] = values.pop("trials")
    if isinstance(values.get("approach"), str):
        changes["approaches"] = (values.pop("approach"),)
    words = [*changes.get("tasks", ()), *changes.get("approaches", ())]
    paths = (f"{word}:" if word.endswith(".py") else word for word in words)
    code = [path for path in paths if is_import_path(path)]
    path = Path(value_of(arguments, "--config", ""))
    require_trust(path, code, {}, trust_code="--trust-code" in arguments)
    parts = (study.model, study.training, study.evaluation)
    config = Config("copy", APPROACHES["compr+reg"], 0, *parts)
    named = {"task", "approach"} & values.keys()
    config = with_settings(config, values, arguments)
    changes |= {"tasks": (config.task,)} if "task" in named else {}
    changes |= {"approach": config.approach} if "approach" in named else {}
    sections = {name: getattr(config, name) for name in ("model", "training", "evaluation")}
    return replace(study, **sections, **changes)


def _stored_parts(folder: Path) -> Parts | None:
    """The settings of a study's runs, with the iterations of the longest; None without a study."""
    from constrained_dnc.study.study import STUDY, read_study  # noqa: PLC0415 - slow to import

    if not (folder / STUDY).is_file():
        return None
    study = read_study(folder)
    training = replace(study.config.training, iterations=max(study.requested_runs.values()))
    return study.config.model, training, study.config.evaluation


@dataclass(frozen=True)
class Gather(StudyOptions):
    """Make a study from runs trained one by one, as by a job array, and write its report.

    Runs are evaluated and analysed if they have not been; the same command adds more runs.
    """

    runs: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        option("Run directories, or folders of them.", "RUN [RUN ...]"),
    ]
    study: Annotated[Path, option("The study directory.")]
    rules: Annotated[tuple[SelectionRule, ...], option()] = ()
    """Selection rules whose parameters are evaluated; by default those of all runs."""

    def run(self) -> int:
        """Copy the runs, complete them and write the report; 1 if a run failed."""
        from constrained_dnc.cli.explore import runs_in  # noqa: PLC0415 - slow to import
        from constrained_dnc.study.plan import gather  # noqa: PLC0415

        folders = [folder for name in self.runs for folder in runs_in(Path(name)) or [name]]
        if not folders:
            raise SettingError("at least one run directory is needed")
        plan = gather(
            folders,
            self.study,
            rules=self.rules,
            analyses=not self.no_analyses,
            command=["gather", *self.runs, "--study", str(self.study)],
            trust_code=self.trust_code,
        )
        return self.complete(plan)


def _execute(plan: Plan, open_executor: OpenExecutor, workers: int | None) -> None:
    """Complete the runs that are not done."""
    from constrained_dnc.cli.watching import StudyWatcher  # noqa: PLC0415 - slow to import
    from constrained_dnc.files import is_locked  # noqa: PLC0415
    from constrained_dnc.model.config import available_cores  # noqa: PLC0415
    from constrained_dnc.study.executors import execute  # noqa: PLC0415
    from constrained_dnc.training.folder import COMPLETING  # noqa: PLC0415

    to_do = plan.to_do()
    runs = f"{len(plan.runs)} runs, {len(plan.runs) - len(to_do)} ended"
    print_stderr(f"study {plan.folder}: {runs}, {len(to_do)} to go")
    locks = [run.folder / COMPLETING for run in to_do]
    if held := [lock for lock in locks if is_locked(lock)]:
        owners = ", ".join(sorted({lock.read_text().strip() for lock in held}))
        print_stderr(f"waiting for runs that an earlier study is still working on: {owners}")
    if to_do:
        with StudyWatcher(to_do, workers or available_cores()) as watcher:
            execute(plan, to_do, open_executor, watcher)


def _print_failures(folder: Path) -> int:
    """Name the runs that failed; 1 if there are any."""
    from constrained_dnc.study import read_study  # noqa: PLC0415 - slow to import

    failures = read_study(folder).failures
    for failure in failures:
        name = f"{failure['task']} {failure['approach']} trial {failure['seed']}"
        print(printable(f"failed: {name}: {failure['reason']}"))
        print(f"  traceback: {failure['traceback']}")
    if failures:
        print("the same command tries again")
    return 1 if failures else 0


@dataclass(frozen=True)
class Report:
    """Rebuild the tables, figures and page of a study from its stored results."""

    study: StudyPath
    figures: Annotated[Literal["quick", "all"] | None, option()] = None
    """quick leaves out cell states (t-SNE takes minutes) and memory modes; by default all figures
    are drawn of a study in the paper's setting."""

    def run(self) -> int:
        """Write the report."""
        write_report(self.study, self.figures)
        return 0


def write_report(folder: Path, figures: Literal["quick", "all"] | None = None) -> None:
    """Build the report with progress, then print the table of maximum lengths and the path."""
    from constrained_dnc.report import Report as StudyReport  # noqa: PLC0415 - slow to import
    from constrained_dnc.study import read_study  # noqa: PLC0415

    report = StudyReport(read_study(folder), figures)
    with ProgressBar("report") as bar:
        page = report.write(lambda stage, done, total: bar.show(done, max(total, 1), stage))
    console().print(report.terminal_table())
    if report.left_out:
        print(report.left_out)
    print(f"report: {page}")


@dataclass(frozen=True)
class Results:
    """Print the maximum lengths of a study, or export all of its results."""

    study: StudyPath
    csv: Flag = False
    """Print every row of the results as comma-separated values."""

    def run(self) -> int:
        """Print a readable table, or export one for programs."""
        from constrained_dnc.report import terminal_table  # noqa: PLC0415 - slow to import
        from constrained_dnc.study import read_study  # noqa: PLC0415

        if self.csv:
            print(read_study(self.study).history.to_csv(index=False), end="")
        else:
            console().print(terminal_table(self.study))
        return 0
