"""The code does what the documents say where the paper is silent."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from constrained_dnc.config import EvaluationConfig, TrainingConfig, make_config, parse_lengths
from constrained_dnc.evaluation.analyses import BINS, DIMENSIONS, PERPLEXITY
from constrained_dnc.model.addressing import allocation_weights
from constrained_dnc.parts import APPROACHES
from constrained_dnc.report import published
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.batches import training_batch
from constrained_dnc.training.parameters import initial_model

DOCS = Path(__file__).parents[1] / "docs"
TRAINING, EVALUATION = TrainingConfig(), EvaluationConfig()
MODEL = make_config("sort", "compr").model


def rows(name: str) -> dict[str, str]:
    """The rows of a document's tables by their first cell."""
    lines = (DOCS / name).read_text(encoding="utf-8").splitlines()
    return {line.split(" | ")[0].strip("| "): line for line in lines if line.startswith("| ")}


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("slot width", f"W = {MODEL.word_size}"),
        ("read heads", f"R = {MODEL.num_reads}"),
        ("clipping of values", f"±{MODEL.clip_value:g}"),
        ("gradient clipping", f"norm {TRAINING.clip_norm:g}"),
        ("running mean that selects", f"last {TRAINING.window} losses"),
        ("loss that selects", f"batch of {TRAINING.batch_size}"),
        ("loss that selects", f"L = {TRAINING.unseen_length}"),
        ("evaluation batches", f"{EVALUATION.batches} of {EVALUATION.batch_size}"),
        ("t-SNE", f"perplexity {PERPLEXITY}"),
        ("mode histograms", f"{BINS} bins, all steps of {EVALUATION.batch_size} sequences"),
    ],
)
def test_settings_are_those_of_the_code(row: str, text: str) -> None:
    assert text in rows("fidelity.md")[row]


def test_the_extension_grid_is_the_one_described_and_has_the_printed_lengths() -> None:
    text = rows("fidelity.md")["lengths with extended memory"].split(" | ")[2]
    first, *spans = re.findall(r"\d+(?: to \d+ by \d+)?|to \d+ by \d+", text)
    lengths, start = [int(first)], 0
    for span in spans:
        begin, end, step = re.findall(r"\d+", f"{start} {span}")[-3:]
        lengths += [at for at in range(int(begin), int(end) + 1, int(step)) if at not in lengths]
        start = int(end)
    assert tuple(lengths) == parse_lengths(EVALUATION.extension_lengths)
    assert set(published.max_lengths(extended=True).values()) <= {0, *lengths}


PAIRED = ("stateful-baseline", "stateless-baseline", "compr", "reg", "lstm-reg")


def test_trials_are_paired() -> None:
    task = get_task("copy")
    runs = {name: make_config("copy", name, seed=3) for name in PAIRED}
    models = {name: initial_model(config) for name, config in runs.items()}
    batches = [training_batch(task, config, 5).inputs for config in runs.values()]
    assert all(np.array_equal(batch, batches[0]) for batch in batches)
    kinds: dict[str, object] = {}
    for name, model in models.items():
        assert jnp.array_equal(model.interface_weight, models["compr"].interface_weight)
        assert jnp.array_equal(model.output_weight, models["compr"].output_weight)
        leaves = [leaf.tobytes() for leaf in map(np.asarray, jax.tree.leaves(model.controller))]
        assert kinds.setdefault(APPROACHES[name].controller, leaves) == leaves


def test_allocation_without_a_free_slot_fades() -> None:
    text = (DOCS / "equations.md").read_text(encoding="utf-8")
    assert "(0.1, 0.09, 0.081, ...)" in text
    np.testing.assert_allclose(allocation_weights(jnp.full(3, 0.9)), [0.1, 0.09, 0.081], rtol=1e-4)
    assert float(allocation_weights(jnp.ones(7)).sum()) == 0
    usage = jnp.array([0.3, 0.8, 0.5, 0.99])
    free = 1 - float(jnp.prod(usage))
    assert float(allocation_weights(usage).sum()) == pytest.approx(free, rel=1e-4)


def test_the_contradictions_are_in_the_papers_numbers() -> None:
    p, longest = published.pairwise_p(extended=False), published.max_lengths(extended=False)
    text = "\n".join(rows("fidelity.md").values())
    for task, pair in (
        ("copy", ("stateful-baseline", "stateless-baseline")),
        ("sort", ("stateful-baseline", "stateless-baseline")),
        ("logic", ("stateful-baseline", "compr")),
        ("search", ("stateful-baseline", "reg")),
    ):
        assert f"{p[task, *pair]:.3f}" in text
    for task in ("copy", "sort"):
        longer = longest[task, "compr+reg"] / longest[task, "stateful-baseline"] - 1
        assert f"{100 * longer:.0f} %" in text


def test_symbols_of_the_equations_have_rows() -> None:
    symbols = rows("equations.md")
    assert {"i, f, o", "c", "h", "c~", "u'", "total loss", "K", "L_state"} <= symbols.keys()
    assert f"{DIMENSIONS} principal components" in symbols["K"]
