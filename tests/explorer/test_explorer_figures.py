"""The figures show the numbers of `unroll(..., internals=True)`, entry by entry."""

import base64
import json

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from constrained_dnc import ModelConfig, build_dnc, get_approach, get_task
from constrained_dnc.evaluation.analyses import reduce_states
from constrained_dnc.explorer import figures
from constrained_dnc.explorer.models import Curve

TASK = get_task("sort")
BATCH = TASK.sample(3, 2, 5)
SAMPLE = 1
CONFIG = ModelConfig(memory_size=12, word_size=5, num_reads=2, hidden_size=16)


@pytest.fixture(scope="module")
def run():
    model = build_dnc(get_approach("compr+reg"), TASK, CONFIG, key=jax.random.key(1))
    return model.unroll(BATCH.inputs, internals=True)


def shown(figure: go.Figure) -> list[np.ndarray]:
    """The heat maps of a figure, after a journey through JSON."""
    data = json.loads(figure.to_json())["data"]
    return [decoded(trace["z"]) for trace in data]


def decoded(values) -> np.ndarray:
    if isinstance(values, list):
        return np.array(values, float)
    raw = np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"])
    return raw.reshape([int(side) for side in values.get("shape", str(raw.size)).split(",")])


def test_weights_and_usage_over_slots_and_time(run):
    memory = run.internals.memory
    (written,) = shown(figures.write_weights_figure(run.internals, SAMPLE))
    np.testing.assert_array_equal(written, memory.write_weights[:, SAMPLE].T)
    heads = shown(figures.read_weights_figure(run.internals, SAMPLE))
    for head, values in enumerate(heads):
        np.testing.assert_array_equal(values, memory.read_weights[:, SAMPLE, head].T)
    assert len(heads) == 2
    (usage,) = shown(figures.usage_figure(run.internals, SAMPLE))
    np.testing.assert_array_equal(usage, memory.usage[:, SAMPLE].T)


def test_weak_weights_are_scaled_to_the_largest(run):
    for peak, end in ((0.02, 0.02), (0.49, 0.49), (0.7, 1.0), (0.0, 1.0)):
        weights = np.zeros_like(run.internals.memory.write_weights)
        weights[3, SAMPLE, 2] = peak
        weak = eqx.tree_at(lambda inside: inside.memory.write_weights, run.internals, weights)
        (heatmap,) = figures.write_weights_figure(weak, SAMPLE).data
        assert (heatmap.zmin, heatmap.zmax) == (0, pytest.approx(end))


def test_memory_and_link_at_a_step(run):
    memory = run.internals.memory
    for step in (1, 7, 12):
        (contents,) = shown(figures.memory_figure(run.internals, step, SAMPLE))
        np.testing.assert_array_equal(contents, memory.memory[step - 1, SAMPLE])
        (link,) = shown(figures.link_figure(run.internals, step, SAMPLE))
        np.testing.assert_array_equal(link, memory.link[step - 1, SAMPLE])


def test_gates_modes_and_strengths(run):
    interface = run.internals.interface
    (gates,) = shown(figures.gates_figure(run.internals, SAMPLE))
    np.testing.assert_array_equal(gates[0], interface.write_gate[:, SAMPLE])
    np.testing.assert_array_equal(gates[1], interface.allocation_gate[:, SAMPLE])
    np.testing.assert_array_equal(gates[2:], interface.free_gates[:, SAMPLE].T)
    modes = figures.read_modes_figure(run.internals, SAMPLE).data
    for head in range(2):
        for mode, name in enumerate(("backward", "forward", "content")):
            line = modes[3 * head + mode]
            assert line.name == name
            np.testing.assert_array_equal(line.y, interface.read_modes[:, SAMPLE, head, mode])
    figure = figures.strengths_figure(run.internals, SAMPLE)
    write, *reads = figure.data
    low, high = figure.layout.yaxis.range
    assert all(low < line.y.min() <= line.y.max() < high for line in figure.data)
    np.testing.assert_array_equal(write.y, interface.write_strength[:, SAMPLE])
    np.testing.assert_array_equal(
        np.stack([line.y for line in reads]), interface.read_strengths[:, SAMPLE].T
    )


def test_a_slot_through_time(run):
    memory = run.internals.memory
    write, first, second, usage = figures.slot_figure(run.internals, 4, SAMPLE).data
    np.testing.assert_array_equal(write.y, memory.write_weights[:, SAMPLE, 3])
    np.testing.assert_array_equal(first.y, memory.read_weights[:, SAMPLE, 0, 3])
    np.testing.assert_array_equal(second.y, memory.read_weights[:, SAMPLE, 1, 3])
    np.testing.assert_array_equal(usage.y, memory.usage[:, SAMPLE, 3])


def test_the_tape_hides_targets_that_the_loss_does_not_see(run):
    (tape,) = shown(figures.tape_figure(TASK, BATCH, run.outputs, SAMPLE))
    numeral, control = BATCH.inputs[:, SAMPLE].T
    np.testing.assert_array_equal(tape[0, :5], numeral[:5])
    np.testing.assert_array_equal(tape[1, 5], control[5])
    assert np.isnan(tape[0, 5:]).all()  # blank, which is no numeral
    assert np.isnan(np.delete(tape[1], 5)).all()
    assert np.isnan(tape[2:4, :6]).all()  # five numerals and the control signal
    np.testing.assert_array_equal(tape[2:4, 6:], BATCH.targets[6:, SAMPLE].T)
    np.testing.assert_array_equal(tape[4:], run.outputs[:, SAMPLE].T)


def test_the_tape_says_what_a_person_writes():
    batch = TASK.batch_of([(3, 2, 0)])
    (heatmap,) = figures.tape_figure(TASK, batch, 0.9 * batch.targets).data
    rows = dict(zip(heatmap.y, zip(heatmap.text, heatmap.customdata, strict=True), strict=True))
    written, hover = rows["in: numeral"]
    assert list(written) == ["3", "2", "0", *[""] * 5]
    assert list(hover[:3]) == ["3 (0.5)", "2 (0)", "0 (-1)"]  # as `cdnc show` has it
    assert list(rows["target: result"][0]) == [*[""] * 4, "0", "2", "3", ""]
    written, hover = rows["out: result"]
    assert list(written) == [*[""] * 4, "0", "2", "3", ""]
    assert list(hover[4:7]) == ["0 (-0.9)", "2 (0)", "3 (0.45)"]
    assert list(rows["out: signal"][0]) == [*[""] * 4, "0", "0", "0", "1"]
    long = TASK.sample(0, 1, 200)
    assert figures.tape_figure(TASK, long, long.targets).data[0].text is None


def test_a_tape_of_logits_shows_probabilities():
    task = get_task("logic")
    batch = task.batch_of([task.parse("T and F")])
    (tape,) = shown(figures.tape_figure(task, batch, np.zeros((5, 1, 1))))
    np.testing.assert_array_equal(tape[-1], 0.5)


def test_paths_of_states_meet_where_encoding_ends(run):
    paths, _ = reduce_states(np.asarray(run.cell_states), dimensions=2)
    figure = figures.states_figure(paths, TASK.encoding_steps(5), SAMPLE)
    *_, encoding, decoding = figure.data
    assert (len(encoding.x), len(decoding.x)) == (6, 7)
    assert (encoding.x[-1], encoding.y[-1]) == (decoding.x[0], decoding.y[0])
    np.testing.assert_array_equal(decoding.x, paths[5:, SAMPLE, 0])


def test_only_slots_in_play_are_drawn(run):
    memory = run.internals.memory
    writes, reads = np.zeros((12, 2, 300)), np.zeros((12, 2, 2, 300))
    for slot, weight in ((20, 0.02), (40, 0.009)):
        reads[5, SAMPLE, 1, slot - 1] = weight
    memory = eqx.tree_at(lambda it: (it.write_weights, it.read_weights), memory, (writes, reads))
    inside = eqx.tree_at(lambda it: it.memory, run.internals, memory)
    assert figures.slots_in_play(inside, SAMPLE) == 20
    assert figures.slots_in_play(inside, 0) == figures.FEWEST_SLOTS


def test_lines_of_the_papers_rule_have_the_colour_of_its_maximum():
    def curve(rule, memory, scores):
        rows = {"length": list(scores), "score": list(scores.values()), "floor": 0.2}
        return Curve(rule, memory, "network", pd.DataFrame(rows))

    pairs = (("score", "50"), ("score", "500"), ("unseen", "50"))
    curves = [curve(rule, memory, {2: 1.0, 3: 0.5}) for rule, memory in pairs]
    figure = figures.score_figure(curves, 3, (1, 2), 2)
    *lines, _, paper = figure.data
    assert [trace.name for trace in lines] == [one.name for one in curves]
    assert lines[2].line.color == paper.marker.color != lines[0].line.color
    assert lines[0].line.dash != lines[1].line.dash
    assert figure.layout.xaxis.type != "log"
    far = figures.score_figure([curve("score", "500", {2: 1.0, 1000: 0.1})], 3, (1, 2))
    assert far.layout.xaxis.type == "log"
