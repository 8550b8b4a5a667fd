"""The logic task, against a recursive-descent parser of its grammar."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from constrained_dnc.errors import SettingError
from constrained_dnc.tasks.logic import SYMBOLS, Logic

BINARY = "∨∧→↔"


@dataclass(frozen=True)
class Node:
    """A part of a formula: T or F, ¬ and its child, or an operator and its two sides."""

    token: str
    children: tuple[Node, ...]
    size: int
    nested: bool

    def value(self) -> bool:
        values = [child.value() for child in self.children]
        if self.token in "TF":
            return self.token == "T"
        if self.token == "¬":
            return not values[0]
        left, right = values
        return {
            "∨": left or right,
            "∧": left and right,
            "→": not left or right,
            "↔": (left and right) or (not left and not right),
        }[self.token]

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.walk()


def parse_formula(text: str) -> Node:
    """formula = atom | atom op atom; strict: no parentheses around the whole."""
    assert not text.startswith("(") or _atom(text, 0).size < len(text)
    left = _atom(text, 0)
    if left.size == len(text):
        return Node(left.token, left.children, left.size, nested=False)
    right = _atom(text, left.size + 1)
    assert text[left.size] in BINARY
    assert left.size + 1 + right.size == len(text)
    return Node(text[left.size], (left, right), len(text), nested=False)


def _atom(text: str, start: int) -> Node:
    """atom = T | F | ¬ atom | ( atom op atom )."""
    if text[start] in "TF":
        return Node(text[start], (), 1, nested=True)
    if text[start] == "¬":
        child = _atom(text, start + 1)
        return Node("¬", (child,), child.size + 1, nested=True)
    assert text[start] == "("
    left = _atom(text, start + 1)
    middle = start + 1 + left.size
    assert text[middle] in BINARY
    right = _atom(text, middle + 1)
    end = middle + 1 + right.size
    assert text[end] == ")"
    return Node(text[middle], (left, right), end + 1 - start, nested=True)


def test_formulas_of_many_lengths() -> None:
    task = Logic()
    for length in (*range(1, 30), 50, 100):
        batch = task.sample(length, 24, length)
        for formula, target in zip(batch.problems, batch.targets[-1, :, 0], strict=True):
            assert len(formula) == length
            value = parse_formula(formula).value()
            assert target == value
            assert task.solve(formula) is value


def test_batch_written_out() -> None:
    batch = Logic().batch_of(["¬T∨F", "T↔¬F", "¬(F)"])
    one_hot = batch.inputs[:4, :, :9]
    for place in range(4):
        for sample, formula in enumerate(batch.problems):
            wanted = [float(symbol == formula[place]) for symbol in SYMBOLS]
            assert one_hot[place, sample].tolist() == wanted
    assert batch.inputs[:, 0, 9].tolist() == [0, 0, 0, 0, 1, 0]
    assert not batch.inputs[4:, :, :9].any()
    assert batch.targets[:, :, 0].T.tolist() == [[0] * 6, [0] * 5 + [1], [0] * 5 + [1]]
    assert batch.mask[:, 0].tolist() == [False] * 5 + [True]
    assert batch.num_steps.tolist() == [6, 6, 6]


def test_operators_leaves_and_splits_are_uniform() -> None:
    """By kind of node (top or nested) and size; 1e-5 as there are some fifty tests."""
    operators: dict[tuple[bool, int], Counter[str]] = defaultdict(Counter)
    splits: dict[tuple[bool, int], Counter[int]] = defaultdict(Counter)
    for length in (5, 8, 17):
        for formula in Logic().sample(length, 2000, length).problems:
            for node in parse_formula(formula).walk():
                kind = (node.nested, node.size)
                operators[kind][node.token] += 1
                if node.token in BINARY:
                    splits[kind][node.children[0].size] += 1
    num_tests = 0
    for (nested, size), counts in operators.items():
        smallest = 5 if nested else 3
        allowed = "TF" if size == 1 else "¬" if size < smallest else "¬" + BINARY
        assert set(counts) <= set(allowed)
        if len(allowed) > 1 and counts.total() >= 200:
            num_tests += 1
            assert stats.chisquare([counts[token] for token in allowed]).pvalue > 1e-5
    for (nested, size), split in splits.items():
        possible = range(1, size - (3 if nested else 1))
        assert set(split) <= set(possible)
        if len(possible) > 1 and split.total() >= 20 * len(possible):
            num_tests += 1
            assert stats.chisquare([split[left] for left in possible]).pvalue > 1e-5
    assert num_tests > 20


def truth_shares(longest: int) -> list[float]:
    """The probability that a formula of each length is true, from the grammar itself."""

    def both(left: float, right: float) -> float:
        or_, and_ = left + right - left * right, left * right
        implies = 1 - left * (1 - right)
        iff = left * right + (1 - left) * (1 - right)
        return or_ + and_ + implies + iff

    def share(size: int, parentheses: int) -> float:
        inner = size - 1 - parentheses
        if inner < 2:
            return 1 - atoms[size - 1]
        sides = [both(atoms[left], atoms[inner - left]) for left in range(1, inner)]
        return (1 - atoms[size - 1] + float(np.mean(sides))) / 5

    atoms = [float("nan"), 0.5]
    for size in range(2, longest + 1):
        atoms.append(share(size, 2))
    return [float("nan"), 0.5, *(share(size, 0) for size in range(2, longest + 1))]


def test_truth_share() -> None:
    exact = truth_shares(100)
    assert all(0.5 <= share <= 0.6 for share in exact[5:])
    for length in (1, 2, 3, 5, 9, 30):
        targets = Logic().sample(length, 2000, length).targets[-1]
        assert targets.mean() == pytest.approx(exact[length], abs=4 * 0.5 / np.sqrt(2000))


def test_score_is_by_probability() -> None:
    task = Logic()
    batch = task.batch_of(["T", "T", "F", "F", "T", "F"])
    outputs = np.zeros((3, 6, 1))
    outputs[-1, :, 0] = [0.1, -0.1, 0.1, -0.1, np.inf, np.nan]
    assert task.decode(outputs, 1) == [True, False, True, False, None, None]
    scores = task.score(batch, outputs)
    assert scores.score.tolist() == [1, 0, 0, 1, 0, 0]
    assert scores.sequence_accuracy.tolist() == [1, 0, 0, 1, 0, 0]
    assert [task.format_answer(answer) for answer in (True, False, None)] == ["T", "F", "?"]


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("T", "T"),
        ("true", "T"),
        ("((¬(⊤ ∧ ⊥) → ⊤) ∨ ⊥) ↔ ⊤", "((¬(T∧F)→T)∨F)↔T"),
        ("((f))", "((F))"),
        ("not T or false", "¬T∨F"),
        ("~T | !F", "¬T∨¬F"),
        ("(T&F)->T", "(T∧F)→T"),
        ("T<->F", "T↔F"),
        ("T implies (F iff T)", "T→(F↔T)"),
        ("¬¬(T ∧ NOT F)", "¬¬(T∧¬F)"),
    ],
)
def test_spellings(text: str, formula: str) -> None:
    assert Logic().parse(text) == formula


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("T & & F", "T, F, ¬ or ( at token 3, not ∧"),
        ("", "T, F, ¬ or ( at the end"),
        ("T F", "∨, ∧, → or ↔ at token 2, not F"),
        ("(T F)", "∨, ∧, → or ↔, or ) at token 3, not F"),
        ("(T & F", ") at the end"),
        ("T & F | T", "the end (nested formulas need parentheses) at token 4, not ∨"),
    ],
)
def test_wrong_formulas(text: str, accepted: str) -> None:
    with pytest.raises(SettingError) as caught:
        Logic().parse(text)
    assert str(caught.value) == f"problem {text!r} is not a formula: expected {accepted}"


@pytest.mark.parametrize(("text", "word"), [("T xor F", "xor"), ("T+F", "+"), ("TF", "TF")])
def test_unknown_words(text: str, word: str) -> None:
    with pytest.raises(SettingError, match="must be made of T F ¬ ∨ ∧ → ↔") as caught:
        Logic().parse(text)
    assert str(caught.value).endswith(f"; {word!r} is none of them")


Valued = tuple[str, bool]  # a formula and its value, grown side by side


def combined(left: Valued, operator: str, right: Valued) -> Valued:
    cases = {"∨": left[1] or right[1], "∧": left[1] and right[1]}
    cases |= {"→": not left[1] or right[1], "↔": left[1] is right[1]}
    return f"({left[0]}{operator}{right[0]})", cases[operator]


VALUED = st.recursive(
    st.sampled_from([("T", True), ("F", False)]),
    lambda part: st.one_of(
        part.map(lambda inner: (f"¬{inner[0]}", not inner[1])),
        part.map(lambda inner: (f"({inner[0]})", inner[1])),
        st.builds(combined, part, st.sampled_from(BINARY), part),
    ),
    max_leaves=20,
)


@given(valued=VALUED)
def test_redundant_parentheses(valued: Valued) -> None:
    formula, value = valued
    task = Logic()
    assert task.parse(task.format_problem(formula)) == formula
    assert task.solve(formula) is value
    assert task.batch_of([formula]).targets[-1, 0, 0] == value


@given(text=st.text(alphabet=SYMBOLS, max_size=12))
def test_any_string_is_either_parsed_or_refused(text: str) -> None:
    try:
        formula = Logic().parse(" ".join(text))
    except SettingError:
        return
    assert formula == text


def test_deep_formulas() -> None:
    assert Logic().solve("¬" * 10_001 + "T") is False
    assert Logic().solve("(" * 10_000 + "T" + ")" * 10_000) is True
