"""Runs that are shared: a folder with a model card, to the Hub's layout and back."""

import shutil
import sys
from types import SimpleNamespace

import equinox as eqx
import pytest

from constrained_dnc.cli import main
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.evaluation.scoring import evaluate
from constrained_dnc.training.hub import from_pretrained, push_to_hub, save_pretrained
from constrained_dnc.training.run import load_run

FILES = {"README.md", "config.json", "status.json", "metrics.jsonl", "evaluation.parquet"}
FILES |= {f"selected{rule}.safetensors" for rule in ("", "-seen", "-score")}


@pytest.fixture
def run(finished, tmp_path):
    """A run with scores, a link to a private file, and what a logger wrote."""
    folder = shutil.copytree(finished[0].folder, tmp_path / "run")
    evaluate(folder, lengths=[2, 3], batches=1)
    (tmp_path / "private").write_text("secret")
    (folder / "linked").symlink_to(tmp_path / "private")
    (folder / "tensorboard").mkdir()
    return load_run(folder)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The cache of a Hub that has no network: files are links from snapshots to blobs."""
    root = tmp_path / "models--me--mine"

    def create_repo(repo_id, *, private, exist_ok):
        return f"https://hub/{repo_id}"

    def upload_folder(*, repo_id, folder_path):
        shutil.copytree(folder_path, root / "blobs")
        (root / "snapshots" / "abc").mkdir(parents=True)
        (root / "refs").mkdir()
        (root / "refs" / "main").write_text("abc")
        for path in (root / "blobs").iterdir():
            (root / "snapshots" / "abc" / path.name).symlink_to(f"../../blobs/{path.name}")

    def snapshot_download(repo_id, *, revision):
        if repo_id != "me/mine":
            raise OSError("no such repository")
        return str(root / "snapshots" / "abc")

    hub = SimpleNamespace(
        create_repo=create_repo, upload_folder=upload_folder, snapshot_download=snapshot_download
    )
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    return root


def test_a_run_goes_to_the_hub_and_comes_back(run, cache, tmp_path):
    assert push_to_hub(run, "me/mine") == "https://hub/me/mine"
    assert {path.name for path in (cache / "blobs").iterdir()} == FILES
    for shared in (from_pretrained("me/mine"), load_run(cache)):
        assert eqx.tree_equal(shared.model, run.model)
        assert (shared.config, shared.status) == (run.config, run.status)
    arguments = ["train", "--from", str(cache), "--training.iterations=4", "--threads=1"]
    assert main([*arguments, "--run-dir", str(tmp_path / "tuned")]) == 0
    assert load_run(tmp_path / "tuned").config.start.run == run.config.run_id
    with pytest.raises(RunError, match=r"snapshot_download of the .* failed: no such rep"):
        from_pretrained("me/other")


def test_the_model_card_is_made_from_the_run(run, tmp_path):
    save_pretrained(run, tmp_path / "shared", "me/mine")
    card = (tmp_path / "shared" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: constrained-dnc\n")
    assert "40 iterations, lengths 1 to 2, seed 0" in card
    assert f"score ({run.status.best_iteration['score']})" in card
    for row in evaluate(run, lengths=[2, 3], batches=1).itertuples():
        assert f"| {row.length} | {row.score:.3f} | {row.sequence_accuracy:.3f} |" in card
    (example,) = [part for part in card.split("```") if part.startswith("python\n")]
    example = example.removeprefix("python\n").replace("me/mine", str(tmp_path / "shared"))
    exec(compile(example, "card", "exec"), {})
    with pytest.raises(SettingError, match="shared is not empty"):
        save_pretrained(run, tmp_path / "shared")


def test_without_the_package_the_extra_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for share in (lambda: push_to_hub(run, "me/mine"), lambda: from_pretrained("me/mine")):
        with pytest.raises(SettingError, match=r"pip install 'constrained-dnc\[hub\]'"):
            share()
