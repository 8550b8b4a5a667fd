"""The model and the regulariser in plain NumPy loops, written from the equations.

Slow, float64, one sample at a time; what the fast code is compared with.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

EPS = 1e-6


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(x, float)))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - max(x))
    return e / sum(e)


def softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def content(
    memory: np.ndarray, key: np.ndarray, strength: float, usage: np.ndarray | None = None
) -> np.ndarray:
    """With a usage the look-up over used slots, written as it is defined."""
    scores = []
    for row in memory:
        dot = sum(row[w] * key[w] for w in range(len(key)))
        row_norm = math.sqrt(sum(value**2 for value in row) + EPS)
        key_norm = math.sqrt(sum(value**2 for value in key) + EPS)
        scores.append(strength * dot / (row_norm * key_norm + EPS))
    if usage is None:
        return softmax(np.array(scores))
    parts = [u * math.exp(score) for u, score in zip(usage, scores, strict=True)]
    return np.array([part / (1 + sum(parts)) for part in parts])


def allocation(usage: np.ndarray) -> np.ndarray:
    used = [EPS + (1 - EPS) * u for u in usage]
    free_list = sorted(range(len(used)), key=lambda i: (used[i], i))
    weights = np.zeros(len(used))
    product = 1.0
    for slot in free_list:
        weights[slot] = (1 - used[slot]) * product
        product *= used[slot]
    return weights


class Memory:
    """The external memory of one sample."""

    def __init__(self, memory_size: int, word_size: int, num_reads: int, lookup: str):
        self.lookup = lookup
        self.N, self.W, self.R = memory_size, word_size, num_reads
        self.memory = np.zeros((memory_size, word_size))
        self.usage = np.zeros(memory_size)
        self.link = np.zeros((memory_size, memory_size))
        self.precedence = np.zeros(memory_size)
        self.write_weights = np.zeros(memory_size)
        self.read_weights = np.zeros((num_reads, memory_size))

    def find(self, key: np.ndarray, strength: float, usage: np.ndarray) -> np.ndarray:
        return content(self.memory, key, strength, usage if self.lookup == "used-slots" else None)

    def step(self, xi: np.ndarray) -> np.ndarray:
        N, W, R = self.N, self.W, self.R
        values = list(xi)

        def take(count: int) -> np.ndarray:
            return np.array([values.pop(0) for _ in range(count)])

        read_keys = take(R * W).reshape(R, W)
        read_strengths = [softplus(x) for x in take(R)]
        write_key = take(W)
        write_strength = softplus(take(1)[0])
        erase = sigmoid(take(W))
        write = take(W)
        free_gates = sigmoid(take(R))
        allocation_gate = sigmoid(take(1)[0])
        write_gate = sigmoid(take(1)[0])
        modes = [softmax(take(3)) for _ in range(R)]
        assert not values

        for i in range(N):
            u = self.usage[i]
            u = u + (1 - u) * self.write_weights[i]
            for r in range(R):
                u *= 1 - free_gates[r] * self.read_weights[r, i]
            self.usage[i] = u

        a = allocation(self.usage)
        c = self.find(write_key, write_strength, self.usage)
        w = write_gate * (allocation_gate * a + (1 - allocation_gate) * c)

        for i in range(N):
            for k in range(W):
                self.memory[i, k] = self.memory[i, k] * (1 - w[i] * erase[k]) + w[i] * write[k]

        link = np.zeros((N, N))
        for i in range(N):
            for j in range(N):
                if i != j:
                    link[i, j] = (1 - w[i] - w[j]) * self.link[i, j] + w[i] * self.precedence[j]
        self.link = link
        self.precedence = (1 - sum(w)) * self.precedence + w
        self.write_weights = w

        used = np.array([u + (1 - u) * w[i] for i, u in enumerate(self.usage)])
        previous = self.read_weights.copy()
        reads = np.zeros((R, W))
        for r in range(R):
            look_up = self.find(read_keys[r], read_strengths[r], used)
            for i in range(N):
                backward = sum(link[j, i] * previous[r, j] for j in range(N))
                forward = sum(link[i, j] * previous[r, j] for j in range(N))
                self.read_weights[r, i] = (
                    modes[r][0] * backward + modes[r][1] * forward + modes[r][2] * look_up[i]
                )
            for i in range(N):
                reads[r] += self.read_weights[r, i] * self.memory[i]
        return reads


class NTMMemory:
    """The memory of a neural Turing machine (Graves et al. 2014) for one sample.

    Heads 0 to R - 1 read, head R writes; the write comes first.
    """

    def __init__(self, memory_size: int, word_size: int, num_reads: int):
        self.N, self.W, self.R = memory_size, word_size, num_reads
        self.memory = np.full((memory_size, word_size), 1e-6)
        self.weights = np.zeros((num_reads + 1, memory_size))
        self.weights[:, 0] = 1

    def address(
        self, head: int, key: np.ndarray, beta: float, g: float, s: np.ndarray, gamma: float
    ) -> None:
        N = self.N
        c = content(self.memory, key, beta)  # equations 5 and 6
        gated = [g * c[i] + (1 - g) * self.weights[head, i] for i in range(N)]  # 7
        shifted = [0.0] * N
        for j in range(N):  # 8: what is at slot j moves by -1, 0 or 1, around the ends
            for move in (-1, 0, 1):
                shifted[(j + move) % N] += gated[j] * s[move + 1]
        total = sum(value**gamma for value in shifted)
        self.weights[head] = [value**gamma / total for value in shifted]  # 9

    def step(self, xi: np.ndarray) -> np.ndarray:
        W, R = self.W, self.R
        values = list(xi)

        def take(count: int) -> np.ndarray:
            return np.array([values.pop(0) for _ in range(count)])

        keys = [take(W) for _ in range(R + 1)]
        betas = [softplus(x) for x in take(R + 1)]
        gates = sigmoid(take(R + 1))
        shifts = [softmax(take(3)) for _ in range(R + 1)]
        gammas = [1 + softplus(x) for x in take(R + 1)]
        erase, add = sigmoid(take(W)), take(W)
        assert not values

        self.address(R, keys[R], betas[R], gates[R], shifts[R], gammas[R])
        for i in range(self.N):
            w = self.weights[R, i]
            for k in range(W):  # equations 3 and 4
                self.memory[i, k] = self.memory[i, k] * (1 - w * erase[k]) + w * add[k]
        reads = np.zeros((R, W))
        for head in range(R):
            self.address(head, keys[head], betas[head], gates[head], shifts[head], gammas[head])
            for i in range(self.N):
                reads[head] += self.weights[head, i] * self.memory[i]  # 2
        return reads.ravel()


def controller_step(
    kind: str, compression: bool, p: dict[str, np.ndarray], chi: np.ndarray, state: list[np.ndarray]
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """h, the state to carry (c, or c and h, or nothing) and c before compression."""
    if kind == "feed-forward":
        h = np.tanh(p["weight_1"] @ chi + p["bias_1"])
        h = np.tanh(p["weight_2"] @ h + p["bias_2"])
        return p["weight_3"] @ h + p["bias_3"], [], np.zeros(0)
    seen = np.concatenate([chi, state[1] if kind == "lstm" else state[0]])
    H = len(state[0])
    pre = p["weight"] @ seen + p["bias"]
    i, f, g, o = (
        sigmoid(pre[:H]),
        sigmoid(pre[H : 2 * H]),
        np.tanh(pre[2 * H : 3 * H]),
        sigmoid(pre[3 * H :]),
    )
    raw = f * state[0] + i * g
    h = o * np.tanh(raw)
    c = np.tanh(raw) if compression else raw
    return h, [c, h] if kind == "lstm" else [c], raw


def unroll(
    kind: str,
    compression: bool,
    parameters: dict[str, np.ndarray],
    inputs: np.ndarray,
    sizes: tuple[int, int, int],
    clip_value: float | None,
    lookup: str = "every-slot",
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outputs, carried and uncompressed cell states, each (time, batch, ...)."""

    def clip(x: np.ndarray) -> np.ndarray:
        return x if clip_value is None else np.minimum(np.maximum(x, -clip_value), clip_value)

    p = parameters
    all_outputs, all_cells, all_raw = [], [], []
    for sample in range(inputs.shape[1]):
        memory = Memory(*sizes, lookup)
        reads = np.zeros(sizes[1] * sizes[2])
        state = [p[name] for name in ("initial_cell", "initial_hidden") if name in p]
        outputs, cells, raws = [], [], []
        for x in inputs[:, sample]:
            h, state, raw = controller_step(kind, compression, p, np.concatenate([x, reads]), state)
            h, state = clip(h), [clip(s) for s in state]
            reads = memory.step(p["interface_weight"] @ h + p["interface_bias"]).ravel()
            y = p["output_weight"] @ h + p["readout_weight"] @ reads + p["output_bias"]
            outputs.append(clip(y))
            cells.append(state[0] if state else np.zeros(0))
            raws.append(raw)
        all_outputs.append(outputs)
        all_cells.append(cells)
        all_raw.append(raws)
    return tuple(np.array(a).swapaxes(0, 1) for a in (all_outputs, all_cells, all_raw))  # type: ignore[return-value]


def state_loss(states: np.ndarray, num_pairs: int) -> float:
    """The regulariser for one sample's states (time, cell), with an exact cosine."""
    similarities = []
    for x in range(len(states)):
        for y in range(x + 1, len(states)):
            dot = sum(a * b for a, b in zip(states[x], states[y], strict=True))
            norms = math.sqrt(sum(states[x] ** 2)) * math.sqrt(sum(states[y] ** 2))
            similarities.append(dot / norms if norms else 0.0)
    closest = sorted(similarities, reverse=True)[:num_pairs]
    return 1 - sum(closest) / len(closest) if closest else 0.0
