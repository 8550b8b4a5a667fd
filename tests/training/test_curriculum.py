"""Curricula: which lengths an iteration draws from, in the batches and in the metrics."""

import pytest

from constrained_dnc.config import TrainingConfig
from constrained_dnc.errors import SettingError
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.batches import make_curriculum, training_batch
from constrained_dnc.training.loop import train
from tiny_runs import fingerprint, tiny_config
from watched_runs import PowerCut, Watcher, cut_power

STAGES = "0:1,4:1..2,9:2"


def expected(iteration):
    """STAGES, said again."""
    return (1, 1) if iteration <= 4 else (1, 2) if iteration <= 9 else (2, 2)


@pytest.fixture
def function(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def stages(iteration):\n"
        "    return (1, 1) if iteration < 4 else (1, 2) if iteration < 9 else (2, 2)\n"
        "def outside(iteration):\n"
        "    return 1, 99\n"
        "def broken(iteration):\n"
        "    return 1 / iteration\n"
    )
    return f"{tmp_path}/mine.py"


@pytest.mark.parametrize("kind", ["text", "function"])
def test_lengths_follow_the_stages_and_are_logged(tmp_path, function, kind):
    text = STAGES if kind == "text" else f"{function}:stages"
    config = tiny_config(iterations=12, log_every=1, curriculum=text)
    task = get_task("copy")
    for iteration in range(1, 200):
        shortest, longest = expected(iteration)
        assert shortest <= training_batch(task, config, iteration).length <= longest
    assert {training_batch(task, config, n).length for n in (5, 6, 7, 8, 9)} == {1, 2}
    run = train(config, tmp_path / "run", threads=1)
    logged = [(line["min_length"], line["max_length"]) for line in run.metrics]
    assert logged == [expected(iteration) for iteration in range(1, 13)]


def test_a_curriculum_of_all_lengths_changes_no_batch():
    task, plain = get_task("copy"), tiny_config()
    other = tiny_config(curriculum="0:1..2")
    for iteration in range(1, 20):
        batches = [training_batch(task, config, iteration) for config in (plain, other)]
        assert (batches[0].inputs == batches[1].inputs).all()


def test_a_curriculum_resumes_with_the_same_bits(tmp_path):
    config = tiny_config(iterations=14, checkpoint_every=5, log_every=3, curriculum=STAGES)
    train(config, tmp_path / "whole", threads=1)
    with pytest.raises(PowerCut):
        train(config, tmp_path / "cut", threads=1, observer=Watcher(8, cut_power))
    train(config, tmp_path / "cut")
    assert fingerprint(tmp_path / "cut") == fingerprint(tmp_path / "whole")


@pytest.mark.parametrize(
    "text", ["1:1..2", "0:1..3", "0:2..1", "0:0..1", "0:1,0:2", "0:1,9:2,4:1", "0", "0:1,", "0:x"]
)
def test_impossible_stages_are_refused(text):
    with pytest.raises(SettingError, match=r"training\.curriculum must be iterations and lengths"):
        TrainingConfig(min_length=1, max_length=2, curriculum=text)


def test_a_function_that_leaves_the_training_lengths_is_refused(function):
    lengths = make_curriculum(tiny_config(curriculum=f"{function}:outside").training)
    with pytest.raises(SettingError, match=r"from 1 to 2, not \(1, 99\) at iteration 4"):
        lengths(5)


def test_a_function_that_fails_is_named_with_its_line_before_a_folder_is_made(tmp_path, function):
    with pytest.raises(SettingError, match=r"broken failed \(.*mine\.py, line 6: ZeroDivisionErr"):
        train(tiny_config(curriculum=f"{function}:broken"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
