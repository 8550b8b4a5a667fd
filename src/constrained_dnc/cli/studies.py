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
from constrained_dnc.cli.terminal import console, print_stderr
from constrained_dnc.config import (
    INFERENCES,
    PRESETS,
    RULES,
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
from constrained_dnc.parts import Approach

if TYPE_CHECKING:
    from constrained_dnc.study.executors import OpenExecutor
    from constrained_dnc.study.plan import Plan

_PRESET = "Defaults of all options below. "
_PRESET += "; ".join(f"{p.name}: {p.study_takes}, {p.result}" for p in PRESETS.values()) + "."
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

        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the workers, too
        try:
            _execute(plan, open_executor or choose_executor(self.workers), self.workers)
            write_report(plan.folder)
        except KeyboardInterrupt:
            print_stderr("stopped; the same command resumes from here")
            return 130
        finally:
            signal.signal(signal.SIGTERM, before)
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
        return cls(preset=preset, arguments=tuple(arguments), **settings)

    def run(self) -> int:
        """Complete every run, then write the report; 1 if a run failed."""
        for name in ("tasks", "approaches", "rules", "inference"):
            if f"--{name}" in self.arguments and not getattr(self, name):
                raise SettingError(f"--{name} needs at least one name")
        from constrained_dnc.study.executors import choose_executor  # noqa: PLC0415 - slow to import

        open_executor = choose_executor(self.workers, self.scheduler, self.executor)
        if self.scheduler is not None:
            with open_executor():  # refuse a wrong address before the study is made
                pass
        return self.complete(self._plan(), open_executor)

    def _plan(self) -> Plan:
        """The requested runs; all runs of the study if only its folder is named."""
        from constrained_dnc.study.plan import (  # noqa: PLC0415 - slow to import
            open_study,
            reopen_study,
            requested_configs,
        )
        from constrained_dnc.study.trial import Wanted  # noqa: PLC0415

        folder = self.study or Path("studies", self.preset)
        options = {argument for argument in self.arguments if argument.startswith("--")}
        tasks, trials, first_seed = self.tasks, self.trials, get_preset(self.preset).first_seed
        approaches: Sequence[str | Approach] = self.approaches
        wanted = Wanted(
            tuple(rule for rule in RULES if rule in self.rules),
            tuple(each for each in INFERENCES if each in self.inference),
            not self.no_analyses,
        )
        if self.study and "--preset" not in options and (folder / "study.json").is_file():
            stored = reopen_study(folder, trust_code=self.trust_code)
            if options <= {"--study", "--workers", "--scheduler", "--executor", "--trust-code"}:
                return stored
            configs = [run.config for run in stored.runs]
            tasks = tasks or tuple(config.task for config in configs)
            approaches = approaches or tuple(config.approach for config in configs)
            seeds = {config.seed for config in configs}
            first_seed, trials = min(seeds), trials or len(seeds)
            wanted = Wanted(
                wanted.rules if "--rules" in options else stored.wanted.rules,
                wanted.inferences if "--inference" in options else stored.wanted.inferences,
                wanted.analyses and stored.wanted.analyses,
            )
        parts = (self.model, self.training, self.evaluation)
        requested = requested_configs(
            self.preset, tasks, approaches, trials, first_seed=first_seed, parts=parts
        )
        command = ["study", *self.arguments]
        return open_study(folder, requested, wanted, preset=self.preset, command=command)


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
