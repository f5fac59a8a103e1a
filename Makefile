# Every target does its own set-up: on a machine with Python 3 and make, `make test` is enough.
.DEFAULT_GOAL := help
SHELL := /bin/sh

BIN := .venv/bin
STAMP := .venv/.keyfold-setup
SERVERS := .venv/.keyfold-test-servers
PYTEST := tools/in_memory.sh $(BIN)/python -m pytest

# Directories whose tests start no JVM.
PLAIN := $(wildcard tests/unit tests/views tests/server)
CODE := $(wildcard src tests bench chaos examples tools/*.py hatch_build.py)
FOUND = $(shell find tests -mindepth 2 -name 'test_*.py' | cut -d/ -f1,2 | sort -u) $(wildcard tests/test_*.py)
# Three processes share their tests, and one that has nothing left takes over some of the others', since single
# tests take from a tenth of a second to minutes. On two cores: a test waits for a third of its time, for Java to
# answer, for a disk, for a process to end.
SHARED := tests/cli tests/engine
# Its JVMs begin in a directory of their own, so that nothing else can share them. Most of its time is one file's,
# whose pages two processes share.
PAGES := tests/docs
# Beside another JVM, the Python workers that Spark starts time out.
ALONE := tests/process
# The others start processes of their own and wait for them: three at a time, each file in one. Those whose single
# files take minutes come first, so that none is left when all else is done.
LONGEST := tests/storage tests/cluster tests/packaging
OTHERS = $(LONGEST) $(filter-out $(LONGEST) $(PLAIN) $(SHARED) $(PAGES) $(ALONE),$(FOUND))
# Runs the directories of tests with a JVM; $(1): which of their tests.
define suites
	@failed=; \
	run() { echo "== $$*"; $(PYTEST) -q -m $(1) "$$@" || failed="$$failed $$*;"; }; \
	for suite in $(SHARED); do run -n 3 --dist worksteal $$suite; done; \
	run -n 2 --dist worksteal $(PAGES); \
	run -n 3 --dist loadfile --no-loadscope-reorder $(OTHERS); \
	for suite in $(ALONE); do run $$suite; done; \
	if [ "$$failed" ]; then echo "failed: $$failed" >&2; exit 1; fi
endef

.PHONY: help setup compiled console check test test-all test-long format bench bench-cli chaos docs demo wheel clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv from uv.lock, and install Java 17 when it is missing

$(STAMP): pyproject.toml uv.lock tools/setup.sh
	@tools/setup.sh
	@touch $@

# What only tests start: PostgreSQL, and a browser.
$(SERVERS): $(STAMP)
	@tools/setup.sh tests
	@touch $@

console: $(STAMP) ## build the console's pages, if their sources in console/ have changed
	@tools/console.sh

# keyfold's own modules, which setup does not compile, and the class archive, with which a JVM starts in three
# quarters of the time. The tests start hundreds of processes. Without one they only take longer.
compiled: $(STAMP) console
	@$(BIN)/python -m compileall -q src tests
	-@$(BIN)/python -m keyfold.engine.jvm.archive_writer

check: $(STAMP) $(SERVERS) ## format, lint, types, and the tests that need no JVM
	$(BIN)/ruff format --check --quiet $(CODE)
	$(BIN)/ruff check --quiet $(CODE)
	$(BIN)/mypy
	$(PYTEST) -q -n 2 --dist worksteal $(PLAIN)

test: check compiled ## what to run before a commit: check, and each feature once on real Spark and Kafka; ten minutes
	$(call suites,core)

test-all: compiled $(SERVERS) ## all other tests; half an hour and more
	$(call suites,"not core")

test-long: ## as test and test-all, with five times as many property tests on new random examples; takes hours
	KEYFOLD_TEST_LONG=1 $(MAKE) test test-all

format: $(STAMP) ## format the code, and fix what ruff can fix
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

bench: $(STAMP) ## measure keyfold beside Spark's built-in aggregation; takes minutes
	$(BIN)/python -m bench $(ARGS)

bench-cli: $(STAMP) ## measure how long commands take to answer
	$(BIN)/python -m bench.cli $(ARGS)

chaos: $(STAMP) ## kill an app with every kind of table, 30 times, and compare it with a clean run; takes half an hour
	$(BIN)/python -m chaos $(ARGS)

docs: $(STAMP) ## generate the reference, the module map and the console's types, and build the site into site/
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/module_map.py
	$(BIN)/python tools/console_types.py
	$(BIN)/mkdocs build --strict --quiet

demo: $(STAMP) console ## run a shop that fills itself, live, until Ctrl-C
	@$(BIN)/keyfold demo $(ARGS)

wheel: $(STAMP) ## build dist/*.whl with the compiled kernel and the console in it
	$(BIN)/python -m build --wheel --no-isolation

clean: ## remove what can be made again, but not .venv
	rm -rf dist build site .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
