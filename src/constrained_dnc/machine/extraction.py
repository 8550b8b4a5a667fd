"""From a trained model to its machine."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import sklearn.cluster
from jaxtyping import Float, Int
from scipy.cluster import hierarchy
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from constrained_dnc.errors import require_integer
from constrained_dnc.evaluation.states import training_lengths_of, unroll_side_by_side
from constrained_dnc.machine.automaton import UNKNOWN, Machine
from constrained_dnc.machine.fidelity import agreement
from constrained_dnc.machine.graph import machine_svg
from constrained_dnc.machine.recording import Recording, named, record
from constrained_dnc.model.dnc import DNC
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.tasks.task import AbstractTask, Answer, Batch

FITTED = 6000
"""Vectors that k-means sees at most."""
STATES = (2, 4, 8, 16, 32, 64, 128)
READS = (1, 4, 16, 64)
"""The numbers of states and read symbols that are tried, by their product."""
COMMANDS = (*range(1, 17), 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 192, 256)
SAMPLES = 32
"""Of every training length, for the table; as many others for the comparison."""
KEPT = 0.99
"""The share of the network's entries, and of its whole answers, that a machine must give too."""


@dataclass(frozen=True)
class Extraction:
    """A machine and how it was obtained."""

    machine: Machine
    states: int  # before minimisation, with the start
    transitions: int  # that were seen
    conflicts: float  # share of steps whose next state was outvoted
    spread: float  # variance of commands within their class / their variance
    is_faithful: bool  # gives 99 % of the network's answers at training lengths
    margins: Mapping[tuple[int, int, int], float]
    """By transition, the least 1 - a/b over all visits: a is the distance of the network's next
    state to the centre of the machine's, b to the nearest other centre."""
    lengths: tuple[int, ...]

    def _repr_svg_(self) -> str:
        """The picture that a notebook shows."""
        return machine_svg(self.machine)


def extract_machine(
    model: DNC,
    task: AbstractTask | str,
    *,
    lengths: Iterable[int] | None = None,
    states: int | None = None,
    reads: int | None = None,
    commands: int | None = None,
    seed: int = 0,
) -> Extraction:
    """The smallest machine that can replace the model's controller at training lengths.

    The carried states and the reads of a run are clustered, what follows each (state, input, read)
    is tabulated, and the machine is minimised. The numbers of states (without the start), read
    symbols and commands, unless they are set, are the smallest with which 99 % of the network's
    answers stay the same. If none does that, the largest is used and `is_faithful` is false.

    Args:
        model: A trained model.
        task: The task it was trained on, or its name.
        lengths: Training lengths, by default all that the model was trained on. A model of a run
            knows them.
        states: The number of states, if it is set.
        reads: The number of read symbols, if it is set; 1 takes no notice of what is read.
        commands: The number of commands, if it is set.
        seed: Fixes the samples and the clustering.
    """
    for setting, value in {"states": states, "reads": reads, "commands": commands}.items():
        if value is not None:
            require_integer(setting, value, 1)
    task = get_task(task) if isinstance(task, str) else task
    if lengths is None:
        trained = training_lengths_of(model)
        lengths = range(min(trained), max(trained) + 1)
    lengths = tuple(sorted(set(lengths)))
    recording = record(model, task, lengths, SAMPLES, seed)
    state_clusters = cluster(recording.state, max(*STATES, states or 0), seed)
    read_clusters = cluster(recording.reads, max(*READS, reads or 0), seed)
    batches = [task.sample((seed, 1, length), SAMPLES, length) for length in lengths]
    answers = _answers(model, task, batches)

    def agrees(machine: Machine) -> bool:
        """Whether the machine in place of the controller gives nearly all of the answers.

        It is padded, so that machines of all sizes share one compiled program.
        """
        states, reads, commands = machine.size
        most = (
            max(states, 1 + max(STATES)),
            max(reads, *READS),
            max(256, 1 << commands.bit_length()),
        )
        others = _answers(machine.padded(*most).apply(model), task, batches)
        return min(agreement(answers, others)) >= KEPT

    sizes = product([states] if states else STATES, [reads] if reads else READS)
    for size in sorted(sizes, key=lambda pair: (pair[0] * pair[1], pair[1])):
        table = _tabulate(recording, state_clusters.labels(size[0]), read_clusters.labels(size[1]))
        if is_faithful := agrees(table.machine(commands or table.transitions)):
            break
    count = commands or table.transitions
    if is_faithful and commands is None:
        fewer = [number for number in COMMANDS if number < count]
        count = next((number for number in fewer if agrees(table.machine(number))), count)
    machine, became = table.machine(count).minimised()
    steps = table.steps.copy()
    steps[:, 0] = became[steps[:, 0]]
    return Extraction(
        machine=named(machine, recording, steps, model),
        states=len(table.next_state),
        transitions=table.transitions,
        conflicts=table.conflicts,
        spread=table.spread(count),
        is_faithful=is_faithful,
        margins=table.margins(steps),
        lengths=lengths,
    )


@dataclass(frozen=True)
class Clusters:
    """Vectors in fine clusters, which can be merged into fewer.

    The fine ones count alike, however many vectors they hold: a state that is visited once per
    sample is not merged with its neighbour for being rare.
    """

    fine: Int[np.ndarray, "vectors"]
    merges: Float[np.ndarray, "merges 4"] | None  # of SciPy's linkage; None for a single cluster

    def labels(self, count: int) -> Int[np.ndarray, "vectors"]:
        """The cluster of every vector, in at most `count` clusters."""
        if self.merges is None or count == 1:
            return np.zeros(len(self.fine), np.int64)
        merged = hierarchy.fcluster(self.merges, count, "maxclust")
        return np.unique(merged, return_inverse=True)[1][self.fine]


def cluster(vectors: Float[np.ndarray, "vectors size"], count: int, seed: int) -> Clusters:
    """At most `count` fine clusters and the order in which they merge."""
    chosen = vectors[np.random.default_rng(seed).permutation(len(vectors))[:FITTED]]
    distinct = len(np.unique(chosen, axis=0)) if vectors.shape[1] else 1
    if distinct == 1:
        return Clusters(np.zeros(len(vectors), np.int64), None)
    with threadpool_limits(1), warnings.catch_warnings():  # on busy cores threads would wait
        warnings.simplefilter("ignore", ConvergenceWarning)  # near-duplicates: fewer clusters
        means = sklearn.cluster.KMeans(min(count, distinct), n_init=1, random_state=seed)
        fine = means.fit(chosen).predict(vectors)
    return merging(vectors, np.unique(fine, return_inverse=True)[1])


def merging(
    vectors: Float[np.ndarray, "vectors size"], fine: Int[np.ndarray, "vectors"]
) -> Clusters:
    """Fine clusters and the order in which they merge."""
    points = means_of(vectors, fine)
    return Clusters(fine, hierarchy.ward(points) if len(points) > 1 else None)


def means_of(
    vectors: Float[np.ndarray, "vectors size"], labels: Int[np.ndarray, "vectors"]
) -> Float[np.ndarray, "count size"]:
    """The mean vector of each label."""
    sums = np.zeros((labels.max() + 1, vectors.shape[1]), np.float64)
    np.add.at(sums, labels, vectors)
    return (sums / np.bincount(labels)[:, np.newaxis]).astype(np.float32)


def squared_distances(
    points: Float[np.ndarray, "count size"], vectors: Float[np.ndarray, "vectors size"]
) -> Float[np.ndarray, "vectors count"]:
    """The squared distance of every vector to every point."""
    return np.stack([((vectors - point) ** 2).sum(axis=1) for point in points], axis=1)


@dataclass(frozen=True)
class _Table:
    """The transitions of clustered states and reads; the majority decides where one leads."""

    recording: Recording
    labels: Int[np.ndarray, "steps"]  # the cluster of the state after each step
    steps: Int[np.ndarray, "steps 3"]  # the state, input symbol and read symbol it begins with
    reads: Float[np.ndarray, "read_symbols read_size"]
    next_state: Int[np.ndarray, "states symbols read_symbols"]
    counts: Int[np.ndarray, "states symbols read_symbols"]
    classes: Clusters  # of transitions by their mean command

    @property
    def transitions(self) -> int:
        return int(np.count_nonzero(self.counts))

    @property
    def conflicts(self) -> float:
        """The share of steps that led elsewhere than the majority."""
        return float(np.mean(self.next_state[tuple(self.steps.T)] != 1 + self.labels))

    def machine(self, commands: int) -> Machine:
        """The machine with this number of commands, not minimised."""
        labels = self.classes.labels(commands)
        command, next_state = np.full(self.next_state.shape, UNKNOWN), self.next_state.copy()
        command[tuple(self.steps.T)] = labels
        _fill_reads(self.reads, next_state, command)
        return Machine(
            inputs=self.recording.inputs,
            input_names=self.recording.input_names,
            reads=self.reads,
            hidden=means_of(self.recording.hidden, labels),
            next_state=next_state,
            command=command,
            counts=self.counts,
            start=0,
        )

    def margins(self, steps: Int[np.ndarray, "steps 3"]) -> dict[tuple[int, int, int], float]:
        """The least margin of rounding the next state, by transition of a minimised machine."""
        states = self.recording.state
        distances = np.sqrt(squared_distances(means_of(states, self.labels), states))
        led = np.arange(len(states)), self.next_state[tuple(self.steps.T)] - 1
        own = distances[led]
        distances[led] = np.inf
        with np.errstate(invalid="ignore", divide="ignore"):
            margin = 1 - own / distances.min(axis=1)
        least: dict[tuple[int, int, int], float] = {}
        for transition, value in zip(map(tuple, steps.tolist()), margin.tolist(), strict=True):
            least[transition] = min(least.get(transition, np.inf), value)
        return least

    def spread(self, commands: int) -> float:
        """Variance of commands within their classes, relative to their total variance."""
        vectors, labels = self.recording.command, self.classes.labels(commands)
        within = ((vectors - means_of(vectors, labels)[labels]) ** 2).sum()
        return float(within / max(((vectors - vectors.mean(axis=0)) ** 2).sum(), 1e-30))


def _tabulate(
    recording: Recording,
    states: Int[np.ndarray, "steps"],
    reads: Int[np.ndarray, "steps"],
) -> _Table:
    """What follows each (state, input, read); state 0 is the start, whose reads are zero."""
    points = means_of(recording.reads, reads)
    read = np.argmin(squared_distances(points, recording.reads), axis=1)
    first_read = np.argmin(squared_distances(points, np.zeros_like(points[:1])))
    is_first, after = recording.after < 0, 1 + states
    before = np.where(is_first, 0, after[recording.after])
    read_before = np.where(is_first, first_read, read[recording.after])
    steps = np.stack([before, recording.symbol, read_before], axis=1)
    visited, transition = np.unique(steps, axis=0, return_inverse=True)
    transition = transition.reshape(-1)
    shape = (1 + after.max(), len(recording.inputs), len(points))
    counts, next_state = np.zeros(shape, np.int64), np.full(shape, UNKNOWN)
    counts[tuple(visited.T)] = np.bincount(transition)
    pairs, seen = np.unique(np.stack([transition, after], 1), axis=0, return_counts=True)
    rising = np.argsort(seen, kind="stable")  # the most frequent is written last
    next_state[tuple(visited[pairs[rising, 0]].T)] = pairs[rising, 1]
    classes = merging(recording.command, transition)
    return _Table(recording, states, steps, points, next_state, counts, classes)


def _fill_reads(
    reads: Float[np.ndarray, "read_symbols read_size"],
    next_state: Int[np.ndarray, "states symbols read_symbols"],
    command: Int[np.ndarray, "states symbols read_symbols"],
) -> None:
    """Let a read that was not seen with a state and an input act as the nearest one that was."""
    distances = squared_distances(reads, reads)
    for state, symbol in np.argwhere((next_state != UNKNOWN).any(axis=2)):
        defined = np.nonzero(next_state[state, symbol] != UNKNOWN)[0]
        like = defined[np.argmin(distances[:, defined], axis=1)]
        next_state[state, symbol] = next_state[state, symbol, like]
        command[state, symbol] = command[state, symbol, like]


def _answers(model: DNC, task: AbstractTask, batches: Sequence[Batch]) -> list[Answer]:
    """The answers to all problems of the batches."""
    runs = unroll_side_by_side(model, task, batches)
    return [
        answer
        for batch, (outputs, _) in zip(batches, runs, strict=True)
        for answer in task.decode(outputs, batch.length)
    ]
