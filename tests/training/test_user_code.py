"""Runs with user-defined code: independent of the current folder, executed only when trusted."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from constrained_dnc import plugins
from constrained_dnc.cli import main
from constrained_dnc.config import Config
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.evaluation.prediction import predict
from constrained_dnc.evaluation.scoring import evaluate
from constrained_dnc.files import read_json, read_tensors
from constrained_dnc.parts import Approach, parse_part
from constrained_dnc.training.folder import SELECTED
from constrained_dnc.training.loop import train
from constrained_dnc.training.run import load_run, write_config
from tiny_runs import tiny_config

TASK = """
import pathlib
from constrained_dnc.tasks.numeral import Copy

with pathlib.Path(__file__).with_name("executed").open("a") as trace:
    trace.write("x")


class T(Copy):
    name = "mine"
"""

PARTS = """
import equinox as eqx
import jax
import jax.numpy as jnp
from constrained_dnc import AbstractConstraint, NTMMemory


class Scale(AbstractConstraint):
    factor: jax.Array

    def __init__(self, start):
        self.factor = jnp.asarray(start)

    def carry(self, cell, key):
        return self.factor * cell


class Louder(NTMMemory):
    gain: jax.Array = eqx.field(default_factory=lambda: jnp.ones(1))

    def __call__(self, vector, state):
        state, reads = super().__call__(vector, state)
        return state, self.gain * reads
"""

PLANS = """
import optax


def halved(learning_rate, by):
    return optax.chain(optax.scale(by), optax.sgd(learning_rate))


def falling(count):
    return 0.1 / (1 + count)


def lengths(iteration, longest):
    return 1, longest
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of a task in a file, trained from the file's folder."""
    place = tmp_path_factory.mktemp("user")
    (place / "t.py").write_text(TASK)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        train(replace(tiny_config(iterations=4), task="t.py:T"), place / "run", threads=1)
    return place


@pytest.fixture
def folder(trained, tmp_path, monkeypatch):
    """A copy of that run, in a process that has not executed the file yet."""
    (trained / "t.py").write_text(TASK)
    (trained / "executed").unlink(missing_ok=True)
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.startswith("user_file_")]:
        monkeypatch.delitem(sys.modules, name)
    return Path(shutil.copytree(trained / "run", tmp_path / "run"))


@pytest.fixture
def stranger(monkeypatch, tmp_path):
    """A user who has trained nothing yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def forge(folder, stored):
    """Store a config as a stranger can: with the id of the run that it describes."""
    stored["run_id"] = Config.from_dict(stored["config"]).run_id
    (folder / "config.json").write_text(json.dumps(stored))


@pytest.mark.usefixtures("stranger")
def test_untrusted_code_is_not_executed(folder, trained, capsys):
    for read in (load_run, evaluate, lambda run: predict(run, "1 2")):
        with pytest.raises(
            RunError, match=r"that you have not trained with here, .*t\.py:T; if you"
        ):
            read(folder)
    for command in (["evaluate"], ["predict", "1 2"]):
        assert main([command[0], str(folder), *command[1:]]) == 1
        (sentence,) = capsys.readouterr().err.splitlines()
        assert "--trust-code" in sentence
    assert not (trained / "executed").exists()


def test_code_that_the_user_trained_with_is_trusted_until_it_changes(folder, trained, tmp_path):
    assert load_run(folder).task.name == "mine"
    elsewhere = shutil.copytree(trained, tmp_path / "elsewhere")
    stored = (elsewhere / "run" / "config.json").read_text()
    forge(elsewhere / "run", json.loads(stored.replace(str(trained), str(elsewhere))))
    with pytest.raises(RunError, match="names user-defined code"):
        load_run(elsewhere / "run")
    (trained / "t.py").write_text(TASK + "    # edited\n")
    with pytest.raises(RunError, match="user-defined code that has changed since training"):
        load_run(folder)


@pytest.mark.usefixtures("stranger")
def test_a_run_may_be_sent_with_its_code(folder, trained, tmp_path, capsys):
    """The copy in the run is used where there is no such file, then one of its name beside it."""
    (trained / "t.py").rename(tmp_path / "t.py")
    with pytest.raises(RunError, match="you have not trained with here"):
        load_run(folder)
    assert load_run(folder, trust_code=True).task.name == "mine"
    assert not (tmp_path / "executed").exists()
    assert main(["train", "--run-dir", str(folder), "--trust-code", "--training.iterations=6"]) == 0
    assert "finished after iteration 6" in capsys.readouterr().out
    assert predict(folder, "1 2") == predict(load_run(folder), "1 2")  # trusted from now on
    (copy,) = (folder / "code").glob("*.py")
    copy.write_text(TASK + "# edited")
    with pytest.raises(RunError, match="has changed since training"):
        load_run(folder)
    shutil.rmtree(folder / "code")
    assert load_run(folder).task.name == "mine"
    (tmp_path / "t.py").unlink()
    with pytest.raises(RunError, match=r"that was not found.*there is no file .*t\.py"):
        load_run(folder, trust_code=True)


@pytest.mark.usefixtures("stranger")
def test_copies_of_code_are_not_written_through_a_link(tmp_path):
    (tmp_path / "t.py").write_text(TASK)
    (tmp_path / "outside").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "code").symlink_to(tmp_path / "outside")
    config = replace(tiny_config(iterations=4), task=f"{tmp_path}/t.py:T")
    with pytest.raises(SettingError, match="neither empty nor a run"):
        train(config, tmp_path / "run", threads=1)
    with pytest.raises(RunError, match="code is a link, and nothing is written through links"):
        write_config(tmp_path / "run", config, "pure", threads=1)
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.usefixtures("stranger")
def test_only_the_edited_file_is_blamed(tmp_path):
    (tmp_path / "t.py").write_text(TASK)
    (tmp_path / "parts.py").write_text(PARTS)
    approach = Approach("mine", "peephole", (parse_part(f"{tmp_path}/parts.py:Scale,start=1.0"),))
    config = replace(tiny_config(iterations=4), task=f"{tmp_path}/t.py:T", approach=approach)
    train(config, tmp_path / "run", threads=1)
    (tmp_path / "parts.py").write_text(PARTS + "# edited")
    with pytest.raises(RunError, match=r"has changed since training, \S*parts\.py:Scale; if you"):
        load_run(tmp_path / "run")


def test_a_module_that_the_user_trained_with_is_trusted(tmp_path, monkeypatch):
    (tmp_path / "package_of_a_test").mkdir()
    path = tmp_path / "package_of_a_test" / "inner.py"
    path.write_text(TASK)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ["package_of_a_test.inner:T"]
    assert not plugins.is_remembered(names)
    plugins.remember(names)
    assert plugins.is_remembered(names)
    assert not {"package_of_a_test", "package_of_a_test.inner"} & sys.modules.keys()
    path.write_text(TASK + "    # edited\n")
    assert not plugins.is_remembered(names)


@pytest.mark.usefixtures("stranger")
def test_code_is_run_when_it_is_trusted(folder, trained, capsys):
    """From another folder than the one it was trained in, too."""
    assert main(["predict", str(folder), "1 2", "--trust-code"]) == 0
    assert "right    1 2" in capsys.readouterr().out
    assert (trained / "executed").exists()
    assert load_run(folder, trust_code=True).task.name == "mine"


LOOKUP = {"lookup": "every-slot", "read_lookup": "t.py:T"}


@pytest.mark.usefixtures("stranger")
@pytest.mark.parametrize(
    "change",
    [
        {"task": "./t.py:T"},
        {"task": "this:T"},
        {"approach": {"name": "mine", "controller": "t.py:T"}},
        {"approach": {"name": "mine", "controller": "t.py:T,size=3"}},
        {"approach": {"name": "mine", "memory": {"kind": "dnc", "settings": LOOKUP}}},
        {"training": {"optimiser": "t.py:T,size=3"}},
        {"training": {"schedule": "t.py:T"}},
        {"training": {"curriculum": "t.py:T"}},
        {"training": {"curriculum": "a,b.py:T"}},
    ],
)
def test_a_relative_path_a_module_or_another_part_is_not_executed(
    folder, trained, change, monkeypatch
):
    monkeypatch.chdir(trained)
    shutil.copy("t.py", "a,b.py")
    stored = read_json(folder / "config.json")
    stored["config"]["task"] = "copy"
    for name, value in change.items():
        old = stored["config"][name]
        stored["config"][name] = old | value if isinstance(old, dict) else value
    if stored["config"]["approach"]["name"] == "mine":
        stored["config"]["approach"]["constraints"] = []
    forge(folder, stored)
    modules = set(sys.modules)
    with pytest.raises(RunError, match="names user-defined code"):
        load_run(folder)
    assert not (trained / "executed").exists()
    assert "this" not in sys.modules.keys() - modules


def test_a_folder_may_have_a_comma_in_its_name(tmp_path):
    path = tmp_path / "a,b" / "all.py"
    path.parent.mkdir()
    path.write_text(f"{TASK}{PARTS}{PLANS}")
    config = tiny_config(
        f"{path}:T",
        iterations=4,
        log_every=2,
        optimiser=f"{path}:halved,by=0.5",
        schedule=f"{path}:falling",
        curriculum=f"{path}:lengths,longest=2",
    )
    constraint = parse_part(f"{path}:Scale,start=0.25")
    config = replace(config, approach=Approach("mine", "peephole", (constraint,)))
    assert len(config.user_code) == 5
    run = train(config, tmp_path / "run", threads=1)
    assert load_run(run.folder).config == config
    assert {line["max_length"] for line in run.metrics if "max_length" in line} == {2}


def test_naming_the_file_again_is_trust_enough(folder, trained):
    """By another path, from another folder."""
    config = replace(tiny_config(iterations=8), task=f"./{os.path.relpath(trained)}/t.py:T")
    assert train(config, folder, threads=1).status.iteration == 8


def test_the_config_stores_path_and_checksum_of_user_code(folder, trained):
    stored = read_json(folder / "config.json")
    path = str(trained / "t.py")
    assert stored["config"]["task"] == f"{path}:T"
    digest = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True)
    assert stored["sources"] == {path: digest.stdout.split()[0]}


def test_an_edited_file_costs_a_warning_and_is_not_trained_with(folder, trained, caplog):
    path = trained / "t.py"
    path.write_text(TASK + "    # another rule\n")
    load_run(folder, trust_code=True)
    assert f"{path} changed since {folder} was trained; scores may differ" in caplog.messages
    config = replace(tiny_config(iterations=8), task=f"{path}:T")
    with pytest.raises(RunError, match=rf"{path} changed since {folder} began.*restart=True"):
        train(config, folder, threads=1)
    path.write_text(TASK)
    assert train(config, folder, threads=1).status.iteration == 8


def test_a_run_that_failed_in_its_first_iteration_begins_anew_with_the_fixed_file(tmp_path):
    path = tmp_path / "t.py"
    config = replace(tiny_config(iterations=4), task=f"{path}:T")
    path.write_text(
        TASK + "    def sample(self, key, batch_size, length):\n        return key[4]\n"
    )
    with pytest.raises(SettingError, match="sample of the task mine failed"):
        train(config, tmp_path / "run", threads=1)
    path.write_text(TASK)
    assert train(config, tmp_path / "run", threads=1).status.iteration == 4
    assert load_run(tmp_path / "run").task.name == "mine"


def test_an_overriding_text_needs_no_file(tmp_path):
    """The newest one counts, as a worker may outlive an edit."""
    path = tmp_path / "far" / "t.py"
    name = f"{path}:T"
    for mark in ("one", "two"):
        text = f"class T:\n    mark = {mark!r}\n".encode()
        with plugins.override_sources({str(path): text}):
            assert plugins.load_class("task", name, object).mark == mark
            assert plugins.sources("task", [name, "package.module:T"]) == {str(path): text}
    with pytest.raises(SettingError, match="there is no file"):
        plugins.sources("task", [name])


def test_paths_are_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.py").symlink_to(Path("t.py"))
    for name in ("t.py:T", "./t.py:T", "x/../t.py:T", "link.py:T"):
        assert plugins.absolute(name) == f"{tmp_path}/t.py:T"
    assert plugins.absolute("package.module:T") == "package.module:T"
    assert plugins.absolute("sort") == "sort"


def test_a_file_is_executed_as_python_does_it(tmp_path):
    (tmp_path / "mine.py").write_text("class Mine:\n    size: int\n")
    mine = plugins.load_class("task", f"{tmp_path}/mine.py:Mine", object)
    assert mine.__annotations__ == {"size": int}


def test_two_threads_get_one_class(tmp_path):
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(0.3)\n\n\nclass Slow:\n    pass\n")
    with ThreadPoolExecutor(2) as pool:
        path = f"{tmp_path}/slow.py:Slow"
        futures = [pool.submit(plugins.load_class, "task", path, object) for _ in range(2)]
        first, second = (each.result() for each in futures)
    assert first is second


def test_arrays_of_user_defined_parts_are_trained_saved_and_loaded(tmp_path, monkeypatch):
    (tmp_path / "parts.py").write_text(PARTS)
    scale, louder = (
        parse_part(f"{tmp_path}/parts.py:{name}") for name in ("Scale,start=0.25", "Louder")
    )
    config = replace(
        tiny_config(iterations=4), approach=Approach("mine", "peephole", (scale,), louder)
    )
    run = train(config, tmp_path / "run", threads=1)
    model = load_run(tmp_path / "run", trust_code=True).selected("seen").model
    assert model.constraints[0].factor != 0.25
    assert model.memory.gain != 1
    for ours, theirs in zip(
        jax.tree.leaves(model), jax.tree.leaves(run.selected("seen").model), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert np.isfinite(evaluate(run, lengths=[2], memories=[3], threads=1)["score"]).all()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another-account"))
    with pytest.raises(RunError, match="user-defined"):
        load_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("numerals += 1; return numerals % 5", r"line 7: ValueError: .*read-only"),
        ("sys.exit(0)", r"line 7: SystemExit: 0"),
    ],
)
def test_a_rule_that_changes_its_argument_or_exits_is_one_sentence(tmp_path, rule, said):
    text = "\nimport sys\nfrom constrained_dnc.tasks.numeral import Copy\nclass Odd(Copy):\n"
    text += f'    name = "odd"\n    def rule(self, numerals):\n        {rule}\n'
    (tmp_path / "odd.py").write_text(text)
    config = tiny_config(f"{tmp_path / 'odd.py'}:Odd", iterations=4)
    with pytest.raises(SettingError, match=f"the rule of the task odd failed .*odd.py, {said}"):
        train(config, tmp_path / "run", threads=1)


def test_the_arrays_of_a_constraint_are_trained_saved_resumed_and_loaded(tmp_path):
    path = Path(__file__).parents[2] / "examples" / "vq.py"
    approach = Approach("vq", "peephole", (parse_part(f"{path}:VQ,codes=3"),))
    books = {}
    for name, steps in {"start": (2,), "whole": (20,), "resumed": (8, 20)}.items():
        for iterations in steps:
            config = replace(tiny_config(iterations=iterations, window=1), approach=approach)
            run = train(config, tmp_path / name)
        books[name] = np.asarray(run.selected("seen").model.constraints[0].book)
        stored = read_tensors(tmp_path / name / SELECTED["seen"])[0]
        np.testing.assert_array_equal(stored["parameters/constraints.0.book"], books[name])
    np.testing.assert_array_equal(books["resumed"], books["whole"])
    assert np.abs(books["whole"] - books["start"]).max() > 1e-3
    assert predict(tmp_path / "whole", "1 2") == predict(run, "1 2")
