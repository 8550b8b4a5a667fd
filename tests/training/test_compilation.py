"""Where compiled programs are kept."""

import jax
import pytest

from constrained_dnc.training.process import MIN_COMPILE_TIME, use_compilation_cache


@pytest.fixture
def use_cache(monkeypatch):
    """Calls `use_compilation_cache` with a folder of JAX's; returns folder and least time."""
    before = jax.config.jax_compilation_cache_dir

    def use(folder):
        jax.config.update("jax_compilation_cache_dir", folder)
        use_compilation_cache()
        return jax.config.jax_compilation_cache_dir, getattr(jax.config, MIN_COMPILE_TIME)

    monkeypatch.delenv(MIN_COMPILE_TIME.upper(), raising=False)
    yield use
    jax.config.update("jax_compilation_cache_dir", before)


def test_the_users_cache_folder_is_used_unless_jax_has_one(use_cache, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert use_cache(None) == (f"{tmp_path}/constrained-dnc/compiled", 0.1)
    assert use_cache(f"{tmp_path}/other") == (f"{tmp_path}/other", 0.1)


def test_training_works_without_a_cache_folder(use_cache, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/file")
    assert use_cache(None)[0] is None


def test_the_users_minimum_compile_time_is_respected(use_cache, tmp_path, monkeypatch):
    monkeypatch.setenv(MIN_COMPILE_TIME.upper(), "5")
    jax.config.update(MIN_COMPILE_TIME, 5.0)
    assert use_cache(f"{tmp_path}/other")[1] == 5
