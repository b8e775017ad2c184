# make demo · make test · make check · make wheel; everything runs in .venv, created on first use
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
HOOK := --jaxtyping-packages=sna_rl.separable,sna_rl.language,sna_rl.agents,sna_rl.training,sna_rl.vision,beartype.beartype
export OMP_NUM_THREADS := 1

.PHONY: demo test check wheel slow format clean
.DELETE_ON_ERROR:

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/sna-rl demo

# The hook checks every shape; it breaks compiled graphs, and its checker draws from Python's generator, so tests
# of either run in a process of their own.
test: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 -m "not slow and not compiled and not unhooked" $(HOOK)
	$(BIN)/python -m pytest -q -n 2 -m "(compiled or unhooked) and not slow" tests

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Builds sdist and wheel, installs the wheel alone in a fresh environment and runs the command line there.
wheel: $(STAMP)
	$(BIN)/python -m pytest -q -m slow tests/test_wheel.py

slow: $(STAMP)
	$(BIN)/python -m pytest -q -m slow

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
