"""The command `cdnc machine`."""

import json

from constrained_dnc import distinct_states
from constrained_dnc.cli import main
from constrained_dnc.training.loop import train
from tiny_runs import tiny_config


def test_a_run(tmp_path, capsys):
    train(tiny_config(iterations=4), tmp_path / "run", threads=1)
    files = tmp_path / "files"
    arguments = ["machine", str(tmp_path / "run"), "--lengths", "2", "--samples", "4"]
    assert main([*arguments, "--output", str(files)]) == 0
    text = capsys.readouterr().out
    assert "transitions seen" in text
    assert "agreement" in text
    assert {path.name for path in files.iterdir()} == {"machine.json", "machine.dot", "machine.svg"}
    stored = json.loads((files / "machine.json").read_text())
    assert stored["states"][stored["start"]] == "start"


def test_the_states_of_a_model_that_rounds_are_counted(tmp_path, capsys):
    run = train(tiny_config("copy", "round+reg", iterations=4), tmp_path / "run", threads=1)
    assert main(["machine", str(tmp_path / "run"), "--lengths", "2,3", "--samples", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(place for place, line in enumerate(lines) if line.endswith("states visited"))
    counts = [int(line.split()[-1]) for line in lines[start + 1 : start + 3]]
    assert counts == [distinct_states(run.model, run.task, [length]) for length in (2, 3)]


def test_a_certificate_needs_a_length_of_at_least_1(capsys):
    assert main(["machine", "zoo:copy/compr+reg", "--certify", "0"]) == 2
    assert capsys.readouterr().err == "cdnc: --certify must be an integer of at least 1, not 0\n"
