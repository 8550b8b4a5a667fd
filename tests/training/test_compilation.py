"""Where compiled programs are kept."""

import os
import subprocess
import sys

import pytest

SHOW = (
    "import jax; from constrained_dnc.training.compilation import use_compilation_cache;"
    "use_compilation_cache(); print(jax.config.jax_compilation_cache_dir)"
)


@pytest.mark.parametrize(
    ("variable", "folder"),
    [
        ("XDG_CACHE_HOME", "{}/constrained-dnc/compiled"),
        ("JAX_COMPILATION_CACHE_DIR", "{}"),
    ],
)
def test_cache_is_where_the_environment_says(tmp_path, variable, folder):
    environment = os.environ | {variable: str(tmp_path)}
    shown = subprocess.run(
        [sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == folder.format(tmp_path)


def test_a_cache_folder_that_cannot_be_made_is_done_without(tmp_path):
    tmp_path.joinpath("file").touch()
    environment = os.environ | {"XDG_CACHE_HOME": f"{tmp_path}/file"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    shown = subprocess.run(
        [sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "None"


@pytest.mark.parametrize(("of_user", "seconds"), [(None, "0.1"), ("5", "5.0")])
def test_a_least_compile_time_of_the_user_is_respected(tmp_path, of_user, seconds):
    name = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    environment.pop(name, None)
    environment |= {name: of_user} if of_user else {}
    show = SHOW.replace("jax_compilation_cache_dir", name.lower())
    shown = subprocess.run(
        [sys.executable, "-c", show], env=environment, capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == seconds
