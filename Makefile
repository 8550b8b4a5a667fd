# Two commands are all it takes: `make demo` and `make test`. Both set up .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
KERNEL := CMakeLists.txt $(wildcard src/constrained_dnc/model/fused/*.h src/constrained_dnc/model/fused/*.cpp)

.PHONY: setup browser demo test test-all lint format bench docs lock clean

setup: $(READY)

# An edited kernel is compiled again before anything uses it.
$(READY): requirements.lock pyproject.toml $(KERNEL)
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# Seconds with pretrained models, then the same live, minutes on two cores; if interrupted, the same
# command resumes it.
demo: setup
	$(BIN)/cdnc demo
	$(BIN)/cdnc demo --live

bench: setup
	$(BIN)/python benchmarks/bench.py

# The documentation site, from the pages and the docstrings; warnings are errors. Its tests run here,
# where Sphinx is.
docs: $(VENV)/docs-ready
	$(BIN)/python scripts/build_docs.py
	SITE=build/docs/site $(BIN)/pytest -m '' tests/test_site.py

$(VENV)/docs-ready: $(READY) requirements-docs.lock
	$(BIN)/python -m pip install --quiet -r requirements-docs.lock
	@touch $@

# The report's page is tested in a real browser; without one these tests are skipped, but not in CI.
browser:
	command -v chromium && command -v chromedriver || \
	  { apt-get update --quiet && apt-get install --quiet --yes chromium chromium-driver; }

lint: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: setup
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# Every worker begins with tests that lie together and share what they train and compile.
PYTEST := $(BIN)/pytest -n auto --dist worksteal

test: lint
	$(PYTEST)

test-all: lint
	$(PYTEST) -m ''

# Renew the exact versions after a change of the ranges in pyproject.toml.
lock: setup
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra dev --extra build \
	  --no-header --no-annotate --no-emit-index-url --output-file requirements.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra docs \
	  --constraint requirements.lock --no-header --no-annotate --no-emit-index-url \
	  --output-file requirements-docs.lock pyproject.toml

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
