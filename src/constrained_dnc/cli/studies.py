"""Commands about studies: reproduce, report, results."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from constrained_dnc.choices import SelectionRule
from constrained_dnc.cli.parsing import parse, value_of
from constrained_dnc.cli.progress import Ticker, screen
from constrained_dnc.cli.telling import tell
from constrained_dnc.config import (
    PRESETS,
    Config,
    EvaluationConfig,
    PresetName,
    TrainingConfig,
    make_config,
)
from constrained_dnc.errors import SettingError, printable, require_integer
from constrained_dnc.model.config import ModelConfig

if TYPE_CHECKING:
    from constrained_dnc.sweep.plan import Plan

_PRESETS = "; ".join(
    f"{preset.name}: {preset.study_takes}, {preset.result}" for preset in PRESETS.values()
)
StudyPath = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="STUDY")]


@dataclass(frozen=True)
class _Reproduce:
    preset: Annotated[PresetName, tyro.conf.arg(help=_PRESETS)] = "quick"
    tasks: tuple[str, ...] = ()
    """Which tasks; by default those of the preset's budget."""
    approaches: tuple[str, ...] = ()
    """Which: names, all (supplement C and beyond too), or your own as file.py, file.py:NAME or
    file.py:Controller; by default those of the preset's budget."""
    trials: int | None = None
    """Trained instances per task and approach."""
    iterations: int | None = None
    """Training iterations of a run, if not the preset's."""
    study: Path | None = None
    """The study directory; by default studies/PRESET."""
    workers: int | None = None
    """Processes on this machine; by default one per core."""
    scheduler: str | None = None
    """The address of a running Dask scheduler, such as tcp://head:8786, instead."""
    rules: tuple[SelectionRule, ...] = ()
    """The selection rules whose parameters are evaluated; by default all."""
    analyses: bool = True
    """Analyse states and memory modes."""
    trust_code: bool = False
    """Run the code that a resumed study names: user-defined tasks, controllers and constraints."""
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)


def reproduce(arguments: list[str]) -> int:
    """Train, evaluate and analyse tasks x approaches x trials, then write the report.

    Interrupted at any point, the same command resumes; --study alone resumes all that was ever
    asked of a study.
    """
    preset = value_of(arguments, "--preset", _Reproduce.preset)
    base = make_config("sort", "compr", preset=preset)
    default = _Reproduce(model=base.model, training=base.training, evaluation=base.evaluation)
    asked = parse(_Reproduce, arguments, "cdnc reproduce", reproduce.__doc__, default)
    for option, given in (("--tasks", asked.tasks), ("--approaches", asked.approaches)):
        if option in arguments and not given:
            raise SettingError(option, "", "at least one name; without the option, the preset's")
    if asked.workers is not None:
        require_integer("workers", asked.workers, 1)
    from constrained_dnc.cli.watching import SweepWatcher  # noqa: PLC0415 - slow to import
    from constrained_dnc.study import read_study  # noqa: PLC0415
    from constrained_dnc.study.layout import FAILURES  # noqa: PLC0415
    from constrained_dnc.sweep.executors import connected, execute  # noqa: PLC0415

    plan = _opened(asked, arguments)
    folder = plan.folder
    to_do = plan.to_do()
    ended = len(plan.configs) - len(to_do)
    announcement = f"study {folder}: {len(plan.configs)} runs, {ended} ended, {len(to_do)} to go"
    try:
        if not to_do:
            tell(announcement)
        else:
            if asked.scheduler is None:
                tell("starting workers")
            with connected(asked.scheduler, asked.workers) as client:
                tell(announcement)
                workers = sum(client.nthreads().values())
                _tell_estimate(plan, to_do, workers)
                with SweepWatcher(plan, to_do, max(1, workers)) as watcher:
                    execute(plan, client, watcher, to_do)
        failures = read_study(folder).failures
        write_report(folder)
    except KeyboardInterrupt:
        tell("interrupted; the same command resumes from here")
        raise
    for failure in failures:
        name = f"{failure['task']} {failure['approach']} trial {failure['seed']}"
        print(printable(f"failed: {name}: {failure['reason']}"))
    if failures:
        print(f"{folder / FAILURES} has the tracebacks; the same command tries again")
    return 1 if failures else 0


def _opened(asked: _Reproduce, arguments: list[str]) -> Plan:
    """The runs that are asked for; all of the study's, if only its folder is named."""
    from constrained_dnc.study.layout import is_study  # noqa: PLC0415
    from constrained_dnc.sweep.plan import (  # noqa: PLC0415
        make_request,
        open_study,
        reopen_study,
    )

    folder = asked.study or Path("studies", asked.preset)
    options = {argument.partition("=")[0] for argument in arguments if argument.startswith("--")}
    is_resumed = options <= {"--study", "--workers", "--scheduler", "--trust-code"}
    if is_resumed and asked.study and is_study(folder):
        return reopen_study(folder, trust_code=asked.trust_code)
    request = make_request(
        asked.preset,
        asked.tasks,
        asked.approaches,
        asked.trials,
        asked.iterations,
        (asked.model, asked.training, asked.evaluation),
        asked.rules,
        asked.analyses,
    )
    return open_study(folder, request, ["reproduce", *arguments])


def _tell_estimate(plan: Plan, to_do: list[Config], workers: int) -> None:
    """Say what is waited for, and how long the runs take."""
    from filelock import FileLock, Timeout  # noqa: PLC0415

    from constrained_dnc.sweep.trial import estimate_seconds  # noqa: PLC0415

    for config in to_do:
        lock = plan.lock(config)
        try:
            if lock.exists():
                FileLock(lock, timeout=0).acquire().lock.release()
        except Timeout:
            tell(f"waiting for a run of another sweep: {lock.read_text().strip()}")
    if not workers:
        tell("the scheduler has no workers yet; runs start as they come")
        return
    tell("compiling and timing a few iterations of the first run")
    told = f"{workers} worker{'s' if workers > 1 else ''}; "
    try:
        rounds = math.ceil(len(to_do) / workers)
        training, evaluation = (
            timedelta(seconds=math.ceil(seconds * rounds)) for seconds in estimate_seconds(to_do[0])
        )
        told += f"training takes about {training}, evaluation up to {evaluation}"
        told += " if all runs are like the first" if len(to_do) > 1 else ""
    except Exception as error:  # of a user-defined task: its runs will say more
        told += f"the first run cannot be timed ({type(error).__name__})"
    tell(told)


@dataclass(frozen=True)
class _Report:
    study: StudyPath
    """A study directory, finished or not."""


def report(arguments: list[str]) -> int:
    """Rebuild tables, figures and page from the stored results of a study."""
    write_report(parse(_Report, arguments, "cdnc report", report.__doc__).study)
    return 0


def write_report(folder: Path) -> None:
    """Build the report with progress, then print the table of maximum lengths and the path."""
    from constrained_dnc.report import Report  # noqa: PLC0415
    from constrained_dnc.study import read_study  # noqa: PLC0415

    study_report = Report(read_study(folder))
    with Ticker("report") as ticker:
        page = study_report.write(
            lambda stage, done, total: ticker.show(float(done), float(max(total, 1)), stage),
        )
    screen().print(study_report.terminal_table())
    print(f"report: {page}")


@dataclass(frozen=True)
class _Results:
    study: StudyPath
    """A study directory, finished or not."""
    csv: bool = False
    """Print all results as comma-separated values instead of the table of maximum lengths."""


def results(arguments: list[str]) -> int:
    """Show the maximum lengths of a study, or print all of its results as CSV."""
    asked = parse(_Results, arguments, "cdnc results", results.__doc__)
    if asked.csv:
        from constrained_dnc.study import read_study  # noqa: PLC0415 - slow to import

        print(read_study(asked.study).history.to_csv(index=False), end="")
        return 0
    from constrained_dnc.report import terminal_table  # noqa: PLC0415

    screen().print(terminal_table(asked.study))
    return 0
