# make demo and make test need nothing but make and Python 3.11 or newer; each brings .venv up to date first.
# PYTHON=/path/to/python3.11 chooses the interpreter.

BIN := .venv/bin
CODE := journal projections replay tools $(if $(wildcard fuzz/*.py),fuzz) $(if $(wildcard bench/*.py),bench) tests
TESTS ?= tests
RIGS ?= tests/rigs
BENCH ?= $(filter-out bench/soak.py,$(wildcard bench/[a-z]*.py))

.PHONY: help install demo test rigs conformance check style types imports format bench lock clean

help:
	@echo "make demo     the whole cycle on real input, in a temporary store"
	@echo "make install  .venv with the engram command"
	@echo "make test     the tests (TESTS=tests/journal for some of them)"
	@echo "make rigs     many processes on one store, at length (RIGS=tests/rigs/test_NAME.py for one)"
	@echo "make conformance  the MCP conformance suite against the server"
	@echo "make team     a day of a team over HTTP, at length (CALLS=10000)"
	@echo "make simulate  a model beside the store, whatever happens (STEPS=20000)"
	@echo "make crash    a power cut at any moment, 10,000 images of the store (CRASH_IMAGES=500)"
	@echo "make soak     four servers for half an hour, with kills, rebuilds, forgettings, backups (MINUTES=30)"
	@echo "make corruption  10,000 flipped bits and more in the files of a store"
	@echo "make faults   a fault into the store's file system calls, one at a time (FAULTS=0 for all, SERVED=60)"
	@echo "              each of the last six, and make test: SEED=... (any text) draws what that seed drew before"
	@echo "make check    style, types, import directions"
	@echo "make format   lay the code out as make check wants it"
	@echo "make bench    the benchmarks (BENCH=bench/NAME.py for one, DATA=FOLDER for those that read texts)"
	@echo "make fuzz     bytes that nobody meant, against what reads bytes (FUZZ_SECONDS=30 a target)"
	@echo "make lock     pin the newest allowed dependencies"

install:
	@.ci/venv run
	@echo "installed: $(BIN)/engram"

demo:
	@.ci/venv run
	@$(BIN)/engram demo

# WORKERS=0 runs them in one process, as a debugger wants it; the tests of a file always share one.
WORKERS ?= auto
test:
	@.ci/venv dev
	@exec $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(TESTS)

# The long forms of what make test runs briefly; docs/rigs.md says what each shows. exec: a signal to make is theirs too.
rigs:
	@.ci/venv dev
	@ENGRAM_RIGS=long exec $(BIN)/python -m pytest --timeout=1800 -v $(RIGS)

# as make test runs it too, with the name of each test; docs/conformance.md tells what came of it
conformance:
	@.ci/venv dev
	@exec $(BIN)/python -m pytest -v -rs tests/conformance

# What is drawn comes from one seed: whatever fails says which, and the line that runs it again (tests/runs.py).
ifdef SEED
export ENGRAM_SEED := $(SEED)
endif

# the long form of tests/team, which make test runs with 2,000 calls; docs/rigs.md says what it shows
CALLS ?= 10000
.PHONY: team
team:
	@.ci/venv dev
	@ENGRAM_TEAM_CALLS=$(CALLS) exec $(BIN)/python -m pytest -v tests/team

# the long form of tests/simulator, which make test runs with 600 steps; docs/rigs.md says what it shows
STEPS ?= 20000
.PHONY: simulate
simulate:
	@.ci/venv dev
	@ENGRAM_SIMULATOR_STEPS=$(STEPS) exec $(BIN)/python -m pytest -v \
		tests/simulator/test_simulated_store.py tests/simulator/test_interleavings.py

# the long form of tests/crash, which make test runs with 500 images; docs/rigs.md says what it shows
CRASH_IMAGES ?= 10000
.PHONY: crash
crash:
	@.ci/venv dev
	@ENGRAM_CRASH_IMAGES=$(CRASH_IMAGES) exec $(BIN)/python -m pytest --timeout=7200 -v -rs tests/crash

# the long form of tests/rigs/test_soak_rig.py; docs/rigs.md says what it shows. What was measured is in SOAKED afterwards.
MINUTES ?= 30
SOAKED ?= soaked
.PHONY: soak
soak:
	@.ci/venv dev
	@exec $(BIN)/python -m bench.soak --minutes $(MINUTES) --to $(SOAKED)

# the long form of tests/corruption, which make test runs briefly; docs/rigs.md says what it shows
.PHONY: corruption
corruption:
	@.ci/venv dev
	@ENGRAM_CORRUPTION=long exec $(BIN)/python -m pytest --timeout=10800 -v -n0 tests/corruption

# the long form of tests/faults, which make test runs with 10 faults and 2; docs/rigs.md says what it shows
FAULTS ?= 600
SERVED ?= 60
.PHONY: faults
faults:
	@.ci/venv dev
	@ENGRAM_FAULTS=$(FAULTS) ENGRAM_FAULTS_SERVED=$(SERVED) exec $(BIN)/python -m pytest -n0 --timeout=28800 -v -rs \
		tests/faults

# make -k check says everything at once
check: style types imports

style:
	@.ci/venv dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	@.ci/venv dev
	$(BIN)/mypy $(CODE)

imports:
	@.ci/venv dev
	$(BIN)/lint-imports --no-logo --no-cache pyproject.toml

format:
	@.ci/venv dev
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# What search is measured beside stands beside the other packages, never among them, like what make fuzz needs.
bench:
	@.ci/venv dev
	@test -d .venv/bench/eventsourcing || $(BIN)/python -m pip --disable-pip-version-check -qq install --no-deps \
		--require-hashes --only-binary :all: --target .venv/bench -r bench/requirements.txt 2>/dev/null \
		|| echo "bench: what search is measured beside cannot be had here; the engine is measured alone"
	@set -e; for file in $(BENCH); do echo "== $$file"; data=; \
		if grep -q '"--data"' $$file; then data="$(DATA)"; \
			test -n "$$data" || { echo "it reads texts: make bench DATA=FOLDER"; continue; }; fi; \
		$(BIN)/python $$file $${data:+--data "$$data"}; done
	@$(if $(BENCH),,echo "no benchmark stands in bench/ yet")

# atheris stands beside the other packages, never among them: nothing but this target needs it.
FUZZ_SECONDS ?= 30
FUZZ_TARGETS ?= read_line frame slot capture page_cursor tokens host_file keyring
.PHONY: fuzz
fuzz:
	@.ci/venv dev
	@test -d .venv/fuzz/atheris || $(BIN)/python -m pip --disable-pip-version-check -qq install --no-deps \
		--require-hashes --only-binary :all: --target .venv/fuzz -r fuzz/requirements.txt 2>/dev/null \
		|| echo "fuzz: atheris cannot be had here; the hypothesis part runs alone"
	@set -e; test ! -d .venv/fuzz/atheris || for target in $(FUZZ_TARGETS); do \
		echo "== $$target, guided"; PYTHONPATH=.:.venv/fuzz $(BIN)/python -m fuzz.guided $$target $(FUZZ_SECONDS); done
	@$(BIN)/python -m fuzz.unguided $(FUZZ_SECONDS) $(FUZZ_TARGETS)

# A tool environment of its own; pip's own configuration is left aside, so that the files name no index and no place.
LOCK := PIP_CONFIG_FILE=/dev/null .venv/lock/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe \
	--strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
	--annotation-style=line --build-deps-for=editable
lock:
	@.ci/venv dev
	$(BIN)/python -m venv .venv/lock
	.venv/lock/bin/pip --quiet install "pip-tools>=7.6,<8"
	env -u PIP_FIND_LINKS CUSTOM_COMPILE_COMMAND="make lock" $(LOCK) --output-file=requirements.txt pyproject.toml
	env -u PIP_FIND_LINKS CUSTOM_COMPILE_COMMAND="make lock" $(LOCK) --constraint=requirements.txt --extra=dev \
		--output-file=requirements-dev.txt pyproject.toml
	env -u PIP_FIND_LINKS CUSTOM_COMPILE_COMMAND="make lock" $(LOCK) --constraint=requirements.txt \
		--no-allow-unsafe --unsafe-package=numpy --output-file=bench/requirements.txt bench/requirements.in
	rm -rf .venv/lock

clean:
	rm -rf .venv dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
