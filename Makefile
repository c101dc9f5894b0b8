# Two commands: `make test` checks everything on a fresh machine, `make demo` shows it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := neuralcpm_bridge training cc3d_steppables morpheus_xml tests benchmarks

.PHONY: install test lint types unit soak sanitize clean

install: $(VENV)/installed

# The package is installed as a user would install it, compiled by its own build; the stamp
# follows what the build reads, so that a changed source reinstalls.
$(VENV)/installed: pyproject.toml constraints.txt $(shell find neuralcpm_bridge/engine -name '*.?pp' -o -name '*.h' -o -name CMakeLists.txt)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt scikit-build-core nanobind cmake ninja torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[cpu,train,dev]'
	touch $@

test: lint types unit

lint: install
	$(BIN)/ruff check $(SOURCES)

types: install
	$(BIN)/mypy

unit: install
	$(BIN)/pytest -n 2 --dist worksteal

clean:
	rm -rf build $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
