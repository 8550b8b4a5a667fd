"""The explorer from Python: a model of a user-defined loop, in a file or served to a notebook."""

import asyncio
import json
import re
import urllib.parse
import urllib.request

import jax
import pytest

from constrained_dnc import SettingError, build_dnc, explore, get_task, load_run
from tiny_runs import tiny_config

CONFIG = tiny_config("copy", "compr+reg")


@pytest.fixture(scope="module")
def model():
    return build_dnc(CONFIG.approach, get_task("copy"), CONFIG.model, key=jax.random.key(1))


def test_one_file_from_a_model_or_a_run(model, runs, tmp_path):
    explore(model, "copy", "3 1 4", html=tmp_path / "model.html", training=CONFIG.training)
    explore(load_run(runs["compr+reg"]), html=tmp_path / "run.html", memory="growing")
    assert '"problem": "3 1 4"' in (tmp_path / "model.html").read_text("utf-8")
    text = (tmp_path / "run.html").read_text("utf-8")
    assert '"approach": "compr+reg"' in text
    assert '"memory_size": "growing"' in text
    explore([*runs.values()], html=tmp_path / "both.html")
    text = (tmp_path / "both.html").read_text("utf-8")
    assert all(f'"name": {json.dumps(name)}' in text for name in runs.values())


def test_a_notebook_goes_on_while_the_page_is_served(model, capsys):
    async def cell() -> str:
        explore(model, "copy", "3 1 4", port=0)
        address, _, fragment = capsys.readouterr().out.strip().partition("#")
        query = f"{address}trace?{fragment}"
        return await asyncio.to_thread(lambda: urllib.request.urlopen(query).read().decode())

    view = json.loads(asyncio.run(cell()))
    assert view["problem"] == "3 1 4"
    assert view["model"]["task"] == "copy"
    assert view["heads"] == 1


def test_what_is_missing_costs_one_sentence(model, runs):
    with pytest.raises(SettingError, match="a model needs its task"):
        explore(model)
    with pytest.raises(SettingError, match="a run knows its task"):
        explore(runs["compr+reg"], "copy")
    with pytest.raises(SettingError, match=re.escape("problem must be")):
        explore(model, "copy", "3 x", html="unwritten.html")
