# Everything a developer or a user of a checkout needs; `make demo` is the place to start.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
# How many processes run tests at the same time; most of their time they wait for servers.
WORKERS ?= 5
.DEFAULT_GOAL := help
.PHONY: help setup demo demo-servers dev test test-slow test-all test-unit test-repeat check audit fuzz format clean

help: ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 13

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "python3 is missing: install Python 3.11 or newer" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

$(VENV)/.millrace: pyproject.toml requirements.txt | $(BIN)/python
	$(PIP) --require-hashes --requirement requirements.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# What checks and tests need beside.
$(VENV)/.dev: requirements-dev.txt $(VENV)/.millrace
	$(PIP) --require-hashes --requirement requirements-dev.txt
	@touch $@

# The load generator has the workloads inside.
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml \
	$(wildcard src/millrace/workloads/builtin/*.toml)
# Cargo.lock names a registry, so it is written here from the list of versions and checksums.
Cargo.lock: Cargo.pinned crates/cargo_lock.py
	$(PYTHON) crates/cargo_lock.py write

target/.built: $(RUST_SOURCES) Cargo.lock
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.87 or newer (with rustup, for example)" >&2; exit 2; }
	cargo build --release --locked
	@touch $@

$(VENV)/.setup: $(VENV)/.millrace target/.built
	install -m 755 target/release/millrace-load $(BIN)/millrace-load
	@touch $@

# Packages come from the network while the compiler works.
setup: ## millrace and millrace-load in .venv/bin
	@$(MAKE) --no-print-directory -j 2 $(VENV)/.setup

DEMO_SERVERS := mysql-5.6.24 mysql-5.7.22 mariadb-10.11.19
demo-servers: $(VENV)/.millrace
	$(BIN)/millrace servers install $(DEMO_SERVERS)

demo: ## compare three real servers, loading and queried, and write two reports
	@$(MAKE) --no-print-directory -j 2 demo-servers $(VENV)/.setup
	$(BIN)/millrace run experiments/load-data.toml --scale demo
	$(BIN)/millrace run experiments/queries.toml --scale demo

dev: setup $(VENV)/.dev

# The tests of crates wait for their own clocks most of the time.
test: dev ## the tests for each change, on real servers too
	RUST_TEST_THREADS=4 cargo test --quiet --locked --workspace
	$(BIN)/python -m tests.run -n $(WORKERS)

test-slow: dev # what `make test` leaves to `make test-all`
	$(BIN)/python -m tests.run --slow -n $(WORKERS)

test-all: ## all tests: every server, long runs, error rates
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-slow

test-unit: dev ## tests that need no server and take little time
	$(BIN)/python -m pytest -q -n 2 -m "not slow and not quiet" --hypothesis-profile=quick tests/unit

TIMES ?= 20
MINUTES ?= 60
test-repeat: dev ## repeat tests that a busy host may disturb, TIMES or for MINUTES, after `make test-all`
	$(BIN)/python -m tests.repeat --times $(TIMES) --minutes $(MINUTES) -n $(WORKERS)

check: dev ## formatters, linters, types, import directions
	cargo fmt --check
	cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A clone of the database of advisories about crates; cargo-audit fetches it where this is empty.
ADVISORY_DB ?=
audit: Cargo.lock ## compare packages and crates with published advisories
	@status=0; \
	if ! command -v pip-audit >/dev/null; then \
		echo "packages were not checked: pip-audit is missing (pipx install pip-audit)" >&2; status=4; \
	elif ! pip-audit --strict --disable-pip --require-hashes --progress-spinner off \
		--requirement requirements.txt --requirement requirements-dev.txt; then \
		echo "packages: advisories are above, or they could not be had" >&2; status=4; \
	fi; \
	if ! cargo audit --version >/dev/null 2>&1; then \
		echo "crates were not checked: cargo-audit is missing (cargo install cargo-audit)" >&2; status=4; \
	elif ! cargo audit --file Cargo.lock $(if $(ADVISORY_DB),--db $(ADVISORY_DB) --no-fetch); then \
		echo "crates: advisories are above, or they could not be had" >&2; status=4; \
	fi; \
	exit $$status

FUZZ_SECONDS ?= 30
fuzz: ## fuzz the protocol, each target for FUZZ_SECONDS
	crates/protocol/fuzz/run.sh $(FUZZ_SECONDS)

format: dev ## rewrite the sources in the house's format
	cargo fmt
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove what was built here (results and servers stay)
	rm -rf $(VENV) target
