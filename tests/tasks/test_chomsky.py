"""The Chomsky tasks against answers and inputs that the published code drew."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from constrained_dnc.errors import SettingError
from constrained_dnc.tasks import chomsky, get_task

EXCERPT = json.loads((Path(__file__).parents[1] / "data" / "chomsky_excerpt.json").read_text())
"""Task to lines of length, input and answer; a dot is not scored. Inputs are hexadecimal digits."""
REFERENCE = Path(__file__).parents[3] / "shared" / "exams" / "chomsky.npz"
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 40, 41, 100)
LEVEL = 1e-4
"""The chance that a right distribution is refused, in each of 120 tests."""
NAMES = [task.name for task in chomsky.TASKS]
EVERY_TASK = pytest.mark.parametrize("name", NAMES)
needs_reference = pytest.mark.skipif(not REFERENCE.exists(), reason="no reference data beside")


def reference(name: str, length: int, kind: str) -> np.ndarray:
    task = name.removeprefix("chomsky/").replace("-", "_")
    with np.load(REFERENCE) as stored:
        return stored[f"{task}/{length}/{kind}"]


@EVERY_TASK
def test_answers_of_the_excerpt(name):
    task = get_task(name)
    for line in EXCERPT[name]:
        length, inputs, expected = line.split()
        problem = tuple(int(digit, 16) for digit in inputs)
        batch = task.batch_of([problem])
        mask = [token != "." for token in expected]
        blank = batch.inputs[:, 0, -1] == 1
        assert len(problem) == task.num_tokens(int(length))
        assert batch.inputs[~blank, 0].argmax(axis=1).tolist() == list(problem)
        assert batch.inputs.sum() == len(blank) == len(problem) + len(expected)
        assert batch.mask[:, 0].tolist() == [False] * len(problem) + mask
        answers = batch.targets[blank, 0].argmax(axis=1)
        assert "".join(map(str, answers[mask])) == expected.rstrip(".")
        solved = expected.rstrip(".").removesuffix("" if task.end is None else str(task.end))
        assert "".join(map(str, task.solve(task.parse(task.format_problem(problem))))) == solved


@needs_reference
@EVERY_TASK
@pytest.mark.parametrize("length", LENGTHS)
def test_answers_and_masks_of_the_reference(name, length):
    task = get_task(name)
    symbols = reference(name, length, "input")
    answers = task.answer(symbols)
    np.testing.assert_array_equal(answers, reference(name, length, "output"))
    np.testing.assert_array_equal(task.scored(answers), reference(name, length, "mask"))
    assert symbols.shape[1] == task.num_tokens(length)
    assert answers.shape[1] == task.num_answers(length)
    task.batch_of(list(map(tuple, symbols.tolist())))  # every problem can be typed


def depth(symbols: np.ndarray, opening: int, closing: int) -> np.ndarray:
    """The deepest nesting of brackets."""
    return (1 * (symbols == opening) - (symbols == closing)).cumsum(axis=1).max(axis=1)


def where(symbols: np.ndarray, token: int) -> np.ndarray:
    """The position of the first such token, in fifths of the input."""
    return 5 * (symbols == token).argmax(axis=1) // symbols.shape[1]


FEATURES = {
    "first token": lambda x: x[:, 0],
    "a quarter in": lambda x: x[:, x.shape[1] // 4],
    "half in": lambda x: x[:, x.shape[1] // 2],
    "three quarters in": lambda x: x[:, 3 * x.shape[1] // 4],
    "last token but one": lambda x: x[:, -2],
    "last token": lambda x: x[:, -1],
    "last two tokens are equal": lambda x: x[:, -1] == x[:, -2],
}
SPECIAL = {
    "chomsky/modular-arithmetic-brackets": {
        "depth": lambda x: depth(x, 8, 9),
        "digits": lambda x: (x < 5).sum(axis=1),
        "products": lambda x: (x == 7).sum(axis=1),
    },
    "chomsky/solve-equation": {
        "depth": lambda x: depth(x, 7, 8),
        "digits": lambda x: (x < 5).sum(axis=1),
        "x": lambda x: where(x, 9),
        "differences": lambda x: (x == 6).sum(axis=1),
    },
    "chomsky/stack-manipulation": {"height": lambda x: where(x > 1, True)},
    "chomsky/missing-duplicate-string": {"missing": lambda x: where(x, 2)},
    "chomsky/binary-addition": {"operator": lambda x: where(x, 2)},
    "chomsky/binary-multiplication": {"operator": lambda x: where(x, 2)},
    "chomsky/compute-sqrt": {"bits": lambda x: x.sum(axis=1)},
}


def p_value(feature, theirs: dict[int, np.ndarray], ours: dict[int, np.ndarray]) -> float:
    """A chi-square test of one feature of independent samples, lengths pooled alike."""
    counts = []
    for drawn in (theirs, ours):
        values = np.concatenate([feature(drawn[length]) for length in theirs])
        counts.append(np.bincount(np.minimum(values, 12).astype(int), minlength=13))
    table = np.array(counts)
    table = table[:, table.sum(axis=0) > 0]
    rare = table[1] * table[0].sum() / table[1].sum() < 5  # expected counts, pooled
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    return 1.0 if table.shape[1] == 1 else stats.chi2_contingency(table).pvalue


def draws(name: str) -> dict[int, np.ndarray]:
    task, generator = get_task(name), np.random.default_rng(0)
    return {length: task.draw_symbols(generator, 640, length) for length in LENGTHS[2:]}


@needs_reference
@EVERY_TASK
def test_inputs_have_the_published_distribution(name):
    theirs = {length: reference(name, length, "input") for length in LENGTHS[2:]}
    ours = draws(name)
    for what, feature in {**FEATURES, **SPECIAL.get(name, {})}.items():
        assert p_value(feature, theirs, ours) > LEVEL, what


@needs_reference
@pytest.mark.parametrize("length", [1, 2, 3])
@EVERY_TASK
def test_short_inputs_have_the_published_distribution(name, length):
    theirs = reference(name, length, "input").astype(np.int64)
    ours = get_task(name).draw_symbols(np.random.default_rng(1), 20_000, length)
    values, number = np.unique(np.concatenate([theirs, ours]), axis=0, return_inverse=True)
    drawn = np.split(number.ravel(), [len(theirs)])
    assert set(drawn[0].tolist()) <= set(drawn[1].tolist())
    kinds = min(len(values), 4)  # pooled, as there are 32 samples
    table = [np.bincount(part % kinds, minlength=kinds) for part in drawn]
    assert kinds == 1 or stats.chi2_contingency(table).pvalue > LEVEL


@needs_reference
def test_another_distribution_is_told_apart():
    name = "chomsky/modular-arithmetic-brackets"
    theirs = {length: reference(name, length, "input") for length in LENGTHS[2:]}
    generator = np.random.default_rng(0)
    operators = (chomsky.PLUS, chomsky.MINUS)
    ours = {n: chomsky.draw_expressions(generator, 640, n, operators) for n in theirs}
    assert p_value(SPECIAL[name]["products"], theirs, ours) < LEVEL


def value(text: str) -> int:
    """The value of an expression, by Python."""
    return eval(text) % 5


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 13, 31])
def test_expressions_have_the_value_that_python_finds(length):
    for name in ("chomsky/modular-arithmetic", "chomsky/modular-arithmetic-brackets"):
        task = get_task(name)
        for problem in task.sample(length, 64, length).problems:
            assert task.solve(problem) == (value(task.format_problem(problem)),)
    task = get_task("chomsky/solve-equation")
    for problem in task.sample(length, 64, length).problems:
        left, equals, right = task.format_problem(problem).partition("=")
        (x,) = task.solve(problem)
        assert not equals or value(left.replace("x", str(x))) == int(right)


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("modular-arithmetic", ["", "1+", "+1", "12", "1_2", "1(2", "7"]),
        ("modular-arithmetic-brackets", ["", "(1", "1+2", "(1+2+3)", "()", "--1", "1=", "(1)2"]),
        ("solve-equation", ["x", "1=1", "(x+x)=1", "x=x", "(x+)=1", "x+1=2", "000"]),
        ("stack-manipulation", ["", "pop", "0 pop 1", "push", "01"]),
        ("missing-duplicate-string", ["", "0", "01", "0_1", "01_0", "__", "_1.1", "_1_1"]),
        ("binary-addition", ["", "+", "1+", "+1", "000", "1+1+1", "1*1"]),
        ("binary-multiplication", ["1+1", "**", "111"]),
        ("cycle-navigation", ["", "1", "x"]),
        ("bucket-sort", ["", "5"]),
    ],
)
def test_a_text_that_is_no_problem_is_refused(name, texts):
    task = get_task(f"chomsky/{name}")
    for text in texts:
        with pytest.raises(SettingError, match="problem must be made of the tokens"):
            task.parse(text)


def test_numbers_of_any_size():
    task = get_task("chomsky/binary-multiplication")
    ones = "1" * 70
    product = (2**70 - 1) ** 2
    expected = [int(bit) for bit in reversed(f"{product:b}")]
    assert task.solve(task.parse(f"{ones}*{ones}")) == tuple(expected)
    assert task.solve(task.parse("00*00")) == (0,)
    assert get_task("chomsky/compute-sqrt").solve((1,) * 64) == (1,) * 32
