"""Values of another kind than the signature's, in a process without the tests' type checks."""

import subprocess
import sys
from pathlib import Path

REFUSED = {
    "load_run(None)": "run is None; accepted: a path",
    "load_run(5)": "run is 5; accepted: a path",
    "predict(None, '3 1')": "run is None; accepted: a path",
    "read_study(5)": "study is 5; accepted: a path",
    "query('nowhere', 'FROM results')": "study is 'nowhere'; accepted: a directory",
    "train(CONFIG, None)": "run_dir is None; accepted: a path",
    "get_task([])": "task is []; accepted: one of",
    "get_task(['mine.py:Task'])": "task is ['mine.py:Task']; accepted: one of",
    "make_config('copy', None)": "approach is None; accepted: one of",
    "Config('copy', None)": "approach is None; accepted: an Approach",
    "EvaluationConfig(lengths=[2, 3])": "evaluation.lengths is [2, 3]; accepted: integers",
    "EvaluationConfig(lengths='٣')": "evaluation.lengths is '٣'; accepted: integers",
    "Approach('q', None)": "approach.controller is None; accepted: one of",
    "Approach('q', [])": "approach.controller is []; accepted: one of",
}
SCRIPT = """
import sys
import numpy as np
from constrained_dnc import *
from constrained_dnc.config import EvaluationConfig
from constrained_dnc.errors import SettingError
from constrained_dnc.study import query, read_study

CONFIG = make_config("copy", "compr", preset="smoke")
for call in sys.argv[1:]:
    try:
        eval(call)
    except SettingError as error:
        print(error)
    else:
        print("accepted")
"""


def run(*calls: str) -> list[str]:
    command = [sys.executable, "-X", "utf8", "-c", SCRIPT, *calls]
    shown = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    return shown.stdout.splitlines()


def test_values_of_a_wrong_kind_cost_one_sentence() -> None:
    for said, (call, expected) in zip(run(*REFUSED), REFUSED.items(), strict=True):
        assert expected in said, call


NUMPY = """
import dataclasses, json
import numpy as np
from constrained_dnc import Approach, Config, Regularisation, get_task, make_config, train

config = make_config("copy", "compr", preset="smoke", seed=np.int64(3))
model = dataclasses.replace(config.model, memory_size=np.int32(9), clip_value=np.float32(20))
training = dataclasses.replace(config.training, iterations=np.int64(10))
config = dataclasses.replace(config, model=model, training=training)
same = make_config("copy", "compr", preset="smoke", seed=3)
same = dataclasses.replace(same, model=dataclasses.replace(same.model, memory_size=9))
assert config.run_id == same.run_id
assert train(config, "run", threads=np.int64(1)).config.seed == 3
assert Regularisation(np.float32(0.5)) == Regularisation(0.5)
whole = dataclasses.replace(
    config,
    approach=Approach("mine", regularisation=Regularisation(task_weight=1)),
    model=dataclasses.replace(config.model, clip_value=20, forget_bias=1),
    training=dataclasses.replace(config.training, learning_rate=1, clip_norm=10),
)
assert Config.from_json(whole.to_json()).run_id == whole.run_id
first, second = (get_task("copy").sample(key, 1, 3).inputs for key in (np.int64(5), 5))
assert np.array_equal(first, second)
"""


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", NUMPY], cwd=tmp_path, check=True)
