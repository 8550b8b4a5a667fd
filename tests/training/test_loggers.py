"""Loggers: every value of metrics.jsonl once, also after a kill; a sentence if one is missing."""

import re
import shlex
import struct
import sys
from pathlib import Path

import pytest

from constrained_dnc.cli import main
from constrained_dnc.config import LOGGERS
from constrained_dnc.errors import SettingError
from constrained_dnc.training.loggers import MODULES, require_loggers
from constrained_dnc.training.loop import train
from constrained_dnc.training.run import load_run
from tiny_runs import fingerprint
from watched_runs import CONFIG, PowerCut, Watcher, cut_power

DOCUMENT = Path(__file__).parents[2] / "docs" / "training.md"


def events(folder):
    """The scalars of event files: records of length, checksum, message, checksum."""
    from tensorboardX.proto.event_pb2 import Event

    scalars = {}
    for path in folder.glob("events.*"):
        content = path.read_bytes()
        while content:
            (size,) = struct.unpack("<Q", content[:8])
            event = Event.FromString(content[12 : 12 + size])
            content = content[16 + size :]
            for value in event.summary.value:
                assert (event.step, value.tag) not in scalars
                scalars[event.step, value.tag] = value.simple_value
    return scalars


def metrics_of(run):
    return {
        (line["iteration"], name): value
        for line in run.metrics
        for name, value in line.items()
        if name != "iteration" and value is not None
    }


def test_tensorboard_has_every_metric_once_after_a_kill(finished, tmp_path):
    """Begun without it, killed with it, resumed with it."""
    pytest.importorskip("tensorboardX")
    folder = tmp_path / "run"
    for at, log in ((12, ()), (26, ["tensorboard"])):
        with pytest.raises(PowerCut):
            train(CONFIG, folder, threads=1, observer=Watcher(at, cut_power), log=log)
    run = train(CONFIG, folder, log=["tensorboard"])
    assert events(folder / "tensorboard") == pytest.approx(metrics_of(run), rel=1e-6)
    assert fingerprint(folder) == fingerprint(finished[0].folder)


def test_the_documented_command_writes_events(tmp_path, monkeypatch):
    pytest.importorskip("tensorboardX")
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"^cdnc (train .*--log tensorboard.*)$", DOCUMENT.read_text(), re.M)
    assert main(shlex.split(command)) == 0
    (folder,) = Path("runs").iterdir()
    assert events(folder / "tensorboard").keys() == metrics_of(load_run(folder)).keys()


@pytest.mark.parametrize("name", LOGGERS)
def test_a_missing_package_is_one_sentence_and_no_folder(tmp_path, monkeypatch, capsys, name):
    monkeypatch.setitem(sys.modules, MODULES[name], None)  # as if it were not installed
    folder = str(tmp_path / "run")
    assert main(["train", "copy", "--preset=smoke", "--run-dir", folder, "--log", name]) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert sentence == (
        f"cdnc: --log {name} needs the package {MODULES[name]}; "
        f"install it with pip install 'constrained-dnc[{name}]'"
    )
    assert not Path(folder).exists()


def test_an_unknown_logger_is_refused():
    with pytest.raises(SettingError, match=r"log must be one of .* \(did you mean tensorboard\?\)"):
        require_loggers(["tensorbord"])
