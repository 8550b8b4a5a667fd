"""What a release is made from agrees with itself."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def workflow(name: str) -> dict:
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())


def test_the_citation_is_of_this_software_and_the_paper():
    for field in ("version", "license"):
        assert CITATION[field] == PROJECT[field]
    assert CITATION["title"] == PROJECT["name"]
    assert CITATION["authors"] == PROJECT["authors"]
    assert {"cff-version", "message"} <= CITATION.keys()
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"*{CITATION['preferred-citation']['title']}*" in readme
    authors = [author["family-names"] for author in CITATION["preferred-citation"]["authors"]]
    assert f"({' and '.join(authors)})" in readme


def test_every_python_is_declared_tested_and_built():
    declared = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert workflow("test")["jobs"]["test"]["strategy"]["matrix"]["python"] == declared
    built = PYPROJECT["tool"]["cibuildwheel"]["build"]
    assert built == [f"cp{version.replace('.', '')}-*" for version in declared]
    assert PROJECT["requires-python"] == f">={declared[0]}"


def test_nothing_is_published_without_a_tag():
    jobs = workflow("wheels")["jobs"]
    publishers = [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})]
    assert publishers == ["publish"]
    assert jobs["publish"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}


def test_actions_are_pinned_to_a_commit_and_say_which_version_it_is():
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for action in re.findall(r"uses: (.*)", path.read_text()):
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), (path, action)


def test_the_gpu_extra_asks_for_the_same_jax():
    (plain,) = (entry for entry in PROJECT["dependencies"] if Requirement(entry).name == "jax")
    (cuda,) = map(Requirement, PROJECT["optional-dependencies"]["gpu"])
    assert (cuda.name, cuda.specifier) == ("jax", Requirement(plain).specifier)
    assert cuda.extras == {"cuda12"}
