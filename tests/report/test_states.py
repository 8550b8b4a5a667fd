"""Embeddings are computed once, and again when the states change."""

from pathlib import Path

import numpy as np
import pytest

from constrained_dnc.report import states
from constrained_dnc.study import Study, read_study
from synthetic import Request, run_folder, run_id, write_study

RUN = run_id("sort", "compr", 0)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    approaches = ("stateless-baseline", "compr")
    request = Request(tasks=("sort",), approaches=approaches, trials=1, extended=False, samples=3)
    return read_study(write_study(tmp_path, request))


def test_computed_once_and_kept(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, ...]] = []

    def count(states: np.ndarray) -> np.ndarray:
        calls.append(states.shape)
        return states[..., :2]

    monkeypatch.setattr(states, "embed", count)
    steps: list[tuple[str, int, int]] = []
    pairs = [(RUN, "encoding"), (RUN, "decoding")]
    states.embed_all(study, pairs, lambda *step: steps.append(step))
    states.embed_all(study, pairs, lambda *_: None)
    assert calls == [(31, 3, 20)] * 2
    assert steps == [("t-SNE", 1, 2), ("t-SNE", 2, 2)]
    reduced = study.analysis(RUN, "states")["states"]
    stored = states.embedding(study, RUN, "decoding")
    np.testing.assert_array_equal(stored, reduced[31:, :, :2])

    file = run_folder(study.path, "sort", "compr", 0) / "analyses.npz"
    np.savez(file, allow_pickle=False, states=reduced + 1, encoding_steps=np.array(31))
    states.embed_all(study, pairs, lambda *_: None)
    assert len(calls) == 4


@pytest.mark.parametrize("damage", ["", "cut", "shape"])
def test_a_corrupt_embedding_is_made_again(
    study: Study, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(states, "embed", lambda states: states[..., :2].astype(np.float32))
    expected = states.embedding(study, RUN, "encoding")
    (path,) = (study.path / "embeddings").iterdir()
    if damage == "shape":
        np.save(path, np.zeros((3, 2), np.float32))
    else:
        path.write_bytes(b"" if damage == "" else path.read_bytes()[:200])
    embedded = states.embedding(study, RUN, "encoding")
    np.testing.assert_array_equal(embedded, expected)
    np.testing.assert_array_equal(np.load(path), expected)


def test_nothing_to_embed(study: Study) -> None:
    assert states.embedding(study, run_id("sort", "stateless-baseline", 0), "encoding") is None
