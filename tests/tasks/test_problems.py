"""Problems are understood as text, plain values and arrays."""

import jax.numpy as jnp
import numpy as np
import pytest

from constrained_dnc.errors import SettingError
from constrained_dnc.tasks.problems import read_problems
from constrained_dnc.tasks.registry import get_task


@pytest.mark.parametrize(
    ("task", "value", "problems", "is_one"),
    [
        ("sort", "3 1 4", [(3, 1, 4)], True),
        ("sort", (3, 1, 4), [(3, 1, 4)], True),
        ("sort", [3, 1, 4], [(3, 1, 4)], True),
        ("sort", np.array([3, 1, 4]), [(3, 1, 4)], True),
        ("sort", jnp.array([3, 1, 4]), [(3, 1, 4)], True),
        ("sort", (np.int64(3), np.int8(1)), [(3, 1)], True),
        ("sort", np.array([[3, 1], [4, 0]]), [(3, 1), (4, 0)], False),
        ("sort", [np.array([3, 1]), "4", (0,)], [(3, 1), (4,), (0,)], False),
        ("sort", ["3"], [(3,)], False),
        ("add", ((0, 1), (1, 1)), [((0, 1), (1, 1))], True),
        ("add", [((0, 1), (1, 1)), "0 + 1"], [((0, 1), (1, 1)), ((0, 1),)], False),
        ("search", ((2, 1), 2), [((2, 1), 2)], True),
        ("search", [((2, 1), 2), ((1, 0), 1)], [((2, 1), 2), ((1, 0), 1)], False),
        ("logic", "T∧F", ["T∧F"], True),
        ("logic", ["T", "not F"], ["T", "¬F"], False),
    ],
)
def test_one_or_several(task, value, problems, is_one):
    assert read_problems(get_task(task), value) == (problems, is_one)


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ((3, 1, 9), (3, 1, 9)),
        ((3.5, 1.0), (3.5, 1.0)),
        (["3 1", "3 9"], "3 9"),
        ((), ()),
        (3, 3),
    ],
)
def test_what_is_no_problem_is_quoted(value, quoted):
    with pytest.raises(SettingError, match=r"^problem must be ") as refused:
        read_problems(get_task("sort"), value)
    assert str(refused.value).endswith(f", not {quoted!r}")
