# Two commands: `make test` checks everything on a fresh machine, `make demo` shows it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := neuralcpm_bridge training cc3d_steppables morpheus_xml tests benchmarks examples
CXX_SOURCES = $(shell find neuralcpm_bridge/engine morpheus_xml/plugin tests benchmarks -name '*.[ch]pp' -o -name '*.[ch]')

.PHONY: install test demo lint types unit soak fuzz sanitize cross clean

install: $(VENV)/installed

# The package is installed as a user would install it, compiled by its own build; the stamp
# follows what the build reads, so that a changed source reinstalls.
$(VENV)/installed: pyproject.toml constraints.txt $(shell find neuralcpm_bridge/engine -name '*.?pp' -o -name '*.h' -o -name CMakeLists.txt)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt scikit-build-core nanobind cmake ninja torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[cpu,train,dev]'
	touch $@

test: lint types unit

# Ten minutes with the installation: data, a fit, simulation, both hosts, demo/report.html.
demo: install
	$(BIN)/neuralcpm demo

lint: install
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check --quiet $(SOURCES)
	$(BIN)/clang-format --dry-run -Werror $(CXX_SOURCES)

types: install
	$(BIN)/mypy

unit: install
	$(BIN)/pytest -n 2 --dist worksteal

# Long proofs: a million accepted flips against rebuilds, a hundred thousand against the reference.
soak: install
	$(BIN)/python benchmarks/soak.py

# Broken files against every reader: 25,000 of them, in less than ten minutes (tests/fuzz).
fuzz: install
	$(BIN)/python -m tests.fuzz

# The engine's tests under AddressSanitizer and UndefinedBehaviorSanitizer, on a copy of the package.
SANITIZE := build/sanitize
# Imports of an editable install would lead back to the engine without sanitizers: the copy goes without its finder.
ALONE := import sys; sys.meta_path[:] = [f for f in sys.meta_path if "ScikitBuild" not in type(f).__name__]
sanitize: install
	$(BIN)/cmake -S neuralcpm_bridge/engine -B $(SANITIZE) -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DNCPM_SANITIZE=ON -DPython_EXECUTABLE=$(abspath $(BIN)/python) -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja)
	$(BIN)/cmake --build $(SANITIZE)
	rm -rf $(SANITIZE)/site && mkdir -p $(SANITIZE)/site
	cp -r neuralcpm_bridge training cc3d_steppables morpheus_xml tests pyproject.toml $(SANITIZE)/site/
	$(BIN)/cmake --install $(SANITIZE) --prefix $(SANITIZE)/site
	echo '$(ALONE)' > $(SANITIZE)/site/sitecustomize.py
	cd $(SANITIZE)/site && ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=$(abspath $(SANITIZE)/site) \
	  LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libstdc++.so)" \
	  $(abspath $(BIN)/python) -m pytest -p no:cacheprovider tests/engine

# The engine for Windows, aarch64 and macOS, compiled here and run under Wine and qemu where they are (docs/platforms.md).
cross: install
	$(BIN)/python -m tests.cross

clean:
	rm -rf build $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
