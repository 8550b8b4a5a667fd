"""The logic task."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from constrained_dnc.errors import SettingError, shortened
from constrained_dnc.tasks.problems import AbstractProblemTask
from constrained_dnc.tasks.task import Batch, CellLabels, Problem, Scores

SYMBOLS = "TF¬∨∧→↔()"
NOT, IFF, OPEN, CLOSE = map(SYMBOLS.index, "¬↔()")
CONNECTIVES: dict[str, Callable[[bool, bool], bool]] = {
    "∨": operator.or_,
    "∧": operator.and_,
    "→": operator.le,
    "↔": operator.eq,
}
SPELLINGS = {symbol: symbol for symbol in SYMBOLS} | {
    "⊤": "T",
    "⊥": "F",
    "TRUE": "T",
    "FALSE": "F",
    "~": "¬",
    "!": "¬",
    "NOT": "¬",
    "|": "∨",
    "OR": "∨",
    "&": "∧",
    "AND": "∧",
    "->": "→",
    "IMPLIES": "→",
    "<->": "↔",
    "IFF": "↔",
}


class Logic(AbstractProblemTask):
    """The truth value of a propositional formula.

    A problem is a string with one character for each token.

    >>> task = Logic()
    >>> task.solve("((¬(T∧F)→T)∨F)")
    True
    >>> task.parse("not (T & false) -> T")
    '¬(T∧F)→T'
    >>> task.format_problem("¬(T∧F)→T")
    '¬(T ∧ F) → T'

    Tokens at steps 1..L, control at L+1, truth value at L+2. The output is a logit: above 0, a
    probability above 0.5, it means true.
    """

    name = "logic"
    summary = "the truth value of a propositional formula"
    input_channels = (*SYMBOLS, "control")
    output_channels = ("truth",)
    loss = "cross-entropy"

    def num_steps(self, length: int) -> int:
        return length + 2

    def draw(self, generator: np.random.Generator, batch_size: int, length: int) -> tuple[str, ...]:
        characters = np.array(list(SYMBOLS))[draw_tokens(generator, batch_size, length)]
        return tuple(characters.view(f"U{length}")[:, 0].tolist())

    def check(self, problem: Problem) -> None:
        if not isinstance(problem, str) or not set(problem) <= set(SYMBOLS):
            raise SettingError("problem", problem, f"a string of {' '.join(SYMBOLS)}")
        evaluate(problem, problem)

    def encode(self, problems: tuple[str, ...]) -> Batch:
        batch_size, length = len(problems), len(problems[0])
        steps = self.num_steps(length)
        characters = np.array(problems).view("U1").reshape(batch_size, length)
        inputs = np.zeros((steps, batch_size, self.input_size), np.float32)
        inputs[:length, :, :-1] = characters.T[:, :, np.newaxis] == np.array(list(SYMBOLS))
        inputs[length, :, -1] = 1.0
        targets = np.zeros((steps, batch_size, 1), np.float32)
        targets[-1, :, 0] = [self.solve(problem) for problem in problems]
        mask = np.zeros((steps, batch_size), np.bool_)
        mask[-1] = True
        return Batch(inputs, targets, mask, np.full(batch_size, steps), length, problems)

    def solve(self, problem: str) -> bool:
        return evaluate(problem, problem)

    def cell_labels(self, problem: str) -> tuple[CellLabels, CellLabels]:
        inputs: CellLabels = {symbol: {} for symbol in SYMBOLS}
        for step, symbol in enumerate(problem):
            inputs[symbol][step] = "1"
        truth = self.format_answer(self.solve(problem))
        return inputs | {"control": {len(problem): "1"}}, {"truth": {len(problem) + 1: truth}}

    def output_labels(self, outputs: Float[np.ndarray, "time outputs"], length: int) -> CellLabels:
        (answer,) = self.read(outputs[:, np.newaxis], length)
        return {"truth": {length + 1: self.format_answer(answer)}}

    def read(
        self, outputs: Float[np.ndarray, "time batch outputs"], length: int
    ) -> list[bool | None]:
        logits = outputs[-1, :, 0].tolist()
        return [logit > 0 if np.isfinite(logit) else None for logit in logits]

    def grade(self, batch: Batch, outputs: Float[np.ndarray, "time batch outputs"]) -> Scores:
        logits = outputs[-1, :, 0]
        correct = np.isfinite(logits) & ((logits > 0) == (batch.targets[-1, :, 0] > 0))
        return Scores(correct.astype(np.float64), correct.astype(np.float64))

    def parse(self, text: str) -> str:
        """Symbols, their ASCII forms or words; parentheses may be redundant."""
        words = re.findall(r"[^\W\d_]+|<->|->|\S", text)
        unknown = [word for word in words if word.upper() not in SPELLINGS]
        if unknown:
            symbols = " ".join(SPELLINGS)
            raise SettingError(f"problem must be made of {symbols}; {unknown[0]!r} is none of them")
        formula = "".join(SPELLINGS[word.upper()] for word in words)
        evaluate(formula, text)
        return formula

    def format_problem(self, problem: str) -> str:
        return re.sub("([∨∧→↔])", r" \1 ", problem)

    def format_answer(self, answer: bool | None) -> str:
        return {True: "T", False: "F", None: "?"}[answer]


def draw_tokens(
    generator: np.random.Generator, batch_size: int, length: int
) -> Int[np.ndarray, "batch length"]:
    """Random formulas, as indices into SYMBOLS; all nodes of a level of the trees at once.

    formula = atom | atom op atom, atom = T | F | ¬ atom | ( atom op atom ). Leaves are T or F with
    equal probability; the operator is uniform over the five where the size allows, and so is the
    split of the size.
    """
    tokens = np.empty(batch_size * length, np.int64)
    start = np.arange(batch_size) * length  # of each node of the level
    size = np.full(batch_size, length)
    margin = 0  # 1 where binary nodes have parentheses: everywhere but at the top
    while start.size:
        operators = generator.integers(NOT, IFF + 1, size=start.size)
        operators[size < 3 + 2 * margin] = NOT
        leaf = size == 1
        unary = (operators == NOT) & ~leaf
        binary = operators != NOT

        tokens[start[leaf]] = generator.integers(2, size=np.count_nonzero(leaf))
        tokens[start[unary]] = NOT
        if margin:
            tokens[start[binary]] = OPEN
            tokens[start[binary] + size[binary] - 1] = CLOSE
        both_sides = size[binary] - 1 - 2 * margin
        left = generator.integers(1, both_sides)
        middle = start[binary] + margin + left
        tokens[middle] = operators[binary]

        start = np.concatenate((start[unary] + 1, start[binary] + margin, middle + 1))
        size = np.concatenate((size[unary] - 1, left, both_sides - left))
        margin = 1
    return tokens.reshape(batch_size, length)


def evaluate(formula: str, text: str) -> bool:
    """The value of a formula; an error quotes `text`, from which it was parsed.

    An explicit stack, as formulas may nest deeper than Python calls.
    """
    outer: list[tuple[bool | None, str | None, bool]] = []  # waiting for their )
    left: bool | None = None
    connective: str | None = None
    negated = False
    value: bool | None = None  # the latest operand, None while it is due
    wrong = f"problem {shortened(repr(text))} is not a formula"
    for position, token in enumerate(formula, start=1):
        if value is None and token in "TF":
            value = (token == "T") is not negated
        elif value is None and token == "¬":
            negated = not negated
        elif value is None and token == "(":
            outer.append((left, connective, negated))
            left, connective, negated = None, None, False
        elif value is not None and token in CONNECTIVES and connective is None:
            left, connective, negated, value = value, token, False, None
        elif value is not None and token == ")" and outer:
            inner = _combine(left, connective, value)
            left, connective, negated = outer.pop()
            value = inner is not negated
        else:
            due = _due(value, connective, bool(outer))
            raise SettingError(f"{wrong}: expected {due} at token {position}, not {token}")
    if value is None or outer:
        due = _due(value, connective, bool(outer))
        raise SettingError(f"{wrong}: expected {due} at the end")
    return _combine(left, connective, value)


def _combine(left: bool | None, connective: str | None, right: bool) -> bool:
    if left is None or connective is None:
        return right
    return CONNECTIVES[connective](left, right)


def _due(value: bool | None, connective: str | None, nested: bool) -> str:
    """How a formula may continue."""
    if value is None:
        return "T, F, ¬ or ("
    if connective is None:
        return "∨, ∧, → or ↔" + (", or )" if nested else "")
    return ")" if nested else "the end (nested formulas need parentheses)"
