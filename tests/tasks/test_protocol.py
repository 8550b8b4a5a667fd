"""The presets for the tasks of others: what they look at, and how scores are averaged."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from constrained_dnc.config import EvaluationConfig, get_preset, make_config, parse_lengths
from constrained_dnc.errors import SettingError
from constrained_dnc.evaluation.floors import compute_floor
from constrained_dnc.evaluation.scoring import evaluate
from constrained_dnc.study.trial import memories_of
from constrained_dnc.tasks import get_task
from constrained_dnc.training.loop import train
from tiny_runs import tiny_config


def test_chomsky_looks_at_no_length_that_is_tested():
    preset = get_preset("chomsky")
    assert (preset.training.min_length, preset.training.max_length) == (1, 40)
    assert preset.training.unseen_length <= 40
    assert preset.rules[0] == "seen"
    assert min(parse_lengths(preset.evaluation.lengths)) > 40


def test_the_mean_over_the_lengths_of_chomsky_is_that_over_all():
    """Wherever a score falls from 1 to 0 it is within half a point; so for any that only falls."""
    evaluation = get_preset("chomsky").evaluation
    assert evaluation.lengths == evaluation.extension_lengths
    measured, everywhere = np.array(parse_lengths(evaluation.lengths)), np.arange(41, 501)
    for longest in range(40, 501):
        error = (measured <= longest).mean() - (everywhere <= longest).mean()
        assert abs(error) < 0.005
    assert (measured % 2).mean() == 0.5


def test_the_memories_of_the_presets_hold_for_every_rule():
    config = make_config("chomsky/odds-first", "round+reg", preset="chomsky")
    assert memories_of(config, "seen") == memories_of(config, "score") == [64, "growing"]
    larger = replace(config, model=replace(config.model, memory_size=96))
    assert memories_of(larger) == [96, "growing"]
    fixed = replace(config, evaluation=EvaluationConfig(memories="trained,640"))
    assert memories_of(fixed) == [64, 640]
    assert memories_of(make_config("sort", "round+reg"), "seen") == [50]
    with pytest.raises(SettingError, match="memory must be numbers of slots"):
        EvaluationConfig(memories="many")


def test_no_length_is_left_out(tmp_path):
    config = tiny_config("chomsky/duplicate-string", "compr", iterations=4)
    run = train(config, tmp_path / "run", threads=1)
    settings = replace(config.evaluation, lengths="4..9", batches=1)
    with_gaps = evaluate(run, settings=settings, store=False)
    assert with_gaps.score.isna().any()
    whole = evaluate(run, settings=replace(settings, all_lengths=True), store=False)
    assert whole.score.notna().all()
    assert whole.batches.tolist() == [1] * 6


def floor_of_sorting(length: int) -> float:
    """Exactly: the likeliest numeral at each position of sorted uniform numerals."""
    positions = np.arange(length)[:, np.newaxis]
    at_most = binom.sf(positions, length, np.arange(6) / 5)
    return float(np.diff(at_most, axis=1).max(axis=1).mean())


def test_the_floor_of_bucket_sort():
    for lengths in (range(41, 501), parse_lengths(get_preset("chomsky").evaluation.lengths)):
        mean = 100 * np.mean([floor_of_sorting(length) for length in lengths])
        assert mean == pytest.approx(90.1, abs=0.05)
    assert compute_floor(get_task("chomsky/bucket-sort"), 43) == pytest.approx(
        floor_of_sorting(43), abs=0.01
    )


def test_the_floor_weighs_entries_as_the_score_does():
    """No fixed answer that is tried does better; short answers count as much as long ones."""
    task = get_task("nam/reduce")
    batch = task.sample((1, 3), 2048, 3)
    best = 0.0
    for row in product((1, 5), (2, 6, 10), (3, 7, 10), (10,)):
        outputs = np.zeros((7, 2048, 11))
        outputs[np.arange(3, 7), :, row] = 1.0
        best = max(best, task.score(batch, outputs).score.mean())
    assert compute_floor(task, 3) == pytest.approx(best, abs=0.02)
