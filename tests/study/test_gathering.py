"""Runs that were trained one by one become a study."""

from dataclasses import replace

import jax
import pytest

from constrained_dnc import SettingError, build_dnc, get_task, save_run, zoo
from constrained_dnc.cli import main, studies
from constrained_dnc.cli.studies import write_report
from constrained_dnc.evaluation.scoring import evaluate
from constrained_dnc.study import read_study
from constrained_dnc.study.plan import gather, reopen_study
from constrained_dnc.study.trial import complete_run
from constrained_dnc.training.loop import train
from tiny_runs import contents, fingerprint, tiny_config
from watched_runs import PowerCut, Watcher, cut_power


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two runs, with seeds that do not begin at 0, and one that failed."""
    place = tmp_path_factory.mktemp("array")
    for seed in (4, 7):
        train(tiny_config(seed=seed), place / f"copy-{seed}", threads=2)
    with pytest.raises(PowerCut):
        train(tiny_config(seed=8), place / "copy-8", observer=Watcher(25, cut_power))
    return sorted(place.iterdir())


@pytest.mark.slow
def test_gathered_runs_have_the_results_of_a_study(folders, tmp_path, caplog):
    before = {folder: contents(folder) for folder in folders}
    plan = gather(folders, tmp_path / "study")
    assert f"{folders[2]} is left out: failed at iteration 25 of 40" in caplog.text
    for run in plan.to_do():
        assert complete_run(run.folder, plan.wanted) == "finished"
    assert not plan.to_do()
    assert reopen_study(tmp_path / "study").to_do() == []
    study = read_study(tmp_path / "study")
    assert study.requested == {("copy", "compr"): (2, 40)}
    assert sorted(study.runs["seed"]) == [4, 7]
    assert study.missing() == []
    assert {folder: contents(folder) for folder in folders} == before
    assert fingerprint(plan.runs[0].folder)["checkpoint"] == fingerprint(folders[0])["checkpoint"]
    alone = evaluate(folders[0], selection="unseen", store=False)
    rows = study.results.query("seed == 4 and selection == 'unseen' and memory == '4'")
    assert rows["score"].tolist() == alone["score"].tolist()
    write_report(tmp_path / "study")
    page = (tmp_path / "study" / "report" / "index.html").read_text("utf-8")
    assert page.index('id="curves"') < page.index('id="claims"')  # nothing can be compared


def test_more_runs_are_added_later(folders, tmp_path):
    gather(folders[:1], tmp_path / "study")
    gather(folders[:2], tmp_path / "study")
    assert read_study(tmp_path / "study").requested == {("copy", "compr"): (2, 40)}
    assert len(reopen_study(tmp_path / "study").runs) == 2


def test_a_saved_model_is_gathered_by_the_rule_it_has(tmp_path):
    config = tiny_config("copy", "compr+reg")
    model = build_dnc(config.approach, get_task("copy"), config.model, key=jax.random.key(0))
    save_run(model, config, tmp_path / "saved")
    plan = gather([tmp_path / "saved"], tmp_path / "study")
    assert plan.wanted.rules == ("score",)
    complete_run(plan.runs[0].folder, plan.wanted)
    study = read_study(tmp_path / "study")
    assert study.analysis(config.run_id, "selection")["selection"] == "score"


def test_a_pretrained_model_is_copied_and_stays_as_it_is(tmp_path):
    folder = zoo.find("zoo:copy/compr+reg")
    before = contents(folder)
    (run,) = gather(["zoo:copy/compr+reg"], tmp_path / "study").runs
    assert run.folder.parent == tmp_path / "study" / "runs"
    (run.folder / "evaluation.parquet").write_bytes(b"")
    assert contents(folder) == before


def test_runs_that_cannot_be_compared_are_refused(folders, tmp_path):
    config = tiny_config(seed=9, learning_rate=0.5)
    model = build_dnc(config.approach, get_task("copy"), config.model, key=jax.random.key(0))
    save_run(model, config, tmp_path / "other")
    with pytest.raises(
        SettingError, match=r"cannot be compared .*learning_rate is 0\.5, not 0\.001"
    ):
        gather([folders[0], tmp_path / "other"], tmp_path / "study")
    save_run(model, replace(config, seed=4, training=tiny_config().training), tmp_path / "twin")
    with pytest.raises(SettingError, match="are of the same trial"):
        gather([folders[0], tmp_path / "twin"], tmp_path / "study")
    with pytest.raises(SettingError, match="none of the runs has ended"):
        gather([folders[2]], tmp_path / "study")
    assert not (tmp_path / "study").exists()


def test_a_fine_tuned_run_is_a_trial_of_its_own_study(folders, tmp_path):
    """Beside a fresh run of its seed, a figure would join the two into one line."""
    config = tiny_config(seed=4)
    start = build_dnc(config.approach, get_task("copy"), config.model, key=jax.random.key(1))
    train(config, tmp_path / "tuned", start=start)
    with pytest.raises(SettingError, match="are of the same trial"):
        gather([folders[0], tmp_path / "tuned"], tmp_path / "study")
    (run,) = gather([tmp_path / "tuned"], tmp_path / "study").runs
    assert run.folder.name == "copy-compr-4-tuned"
    assert [run.config for run in reopen_study(tmp_path / "study").runs] == [run.config]
    with pytest.raises(SettingError, match="starts from other parameters"):
        gather(folders[:1], tmp_path / "study")


def test_the_command_takes_folders_of_runs(folders, tmp_path, monkeypatch):
    plans = []
    monkeypatch.setattr(studies.StudyOptions, "complete", lambda _, plan: plans.append(plan) or 0)
    study = tmp_path / "study"
    assert main(["gather", str(folders[0].parent), "--study", str(study), "--no-analyses"]) == 0
    assert [run.config.seed for run in plans[0].runs] == [4, 7]
    assert not plans[0].wanted.analyses
    assert main(["gather", str(tmp_path), "--study", str(study)]) == 2
