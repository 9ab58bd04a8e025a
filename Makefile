# Everything a developer or a user of a checkout needs; `make demo` is the place to start.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
# How many processes run tests at the same time; most of their time they wait for servers.
WORKERS ?= 3
.DEFAULT_GOAL := help
.PHONY: help setup demo test check format clean

help: ## what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "python3 is missing: install Python 3.11 or newer" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

# The load generator has the workloads inside.
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml \
	$(wildcard src/millrace/workloads/builtin/*.toml)
$(VENV)/.setup: pyproject.toml requirements-dev.txt $(RUST_SOURCES) | $(BIN)/python
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.87 or newer (with rustup, for example)" >&2; exit 2; }
	cargo build --quiet --release & build=$$!; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . && \
	wait $$build || { kill $$build 2>/dev/null; exit 1; }
	install -m 755 target/release/millrace-load $(BIN)/millrace-load
	touch $@

setup: $(VENV)/.setup ## millrace and millrace-load in .venv/bin

demo: setup ## compare three real servers, loading and queried, and write two reports
	$(BIN)/millrace run experiments/load-data.toml --scale demo
	$(BIN)/millrace run experiments/queries.toml --scale demo

test: setup ## all tests, on real servers too
	cargo test --quiet --workspace
	$(BIN)/python -m tests.run -n $(WORKERS)

check: setup ## formatters, linters, types, import directions
	cargo fmt --check
	cargo clippy --quiet --workspace --all-targets -- -D warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## rewrite the sources in the house's format
	cargo fmt
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove what was built here (results and servers stay)
	rm -rf $(VENV) target
