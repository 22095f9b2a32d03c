# Every verb of the project; `make` alone lists them. CI calls the same.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# More arguments for the command behind a verb: make test ARGS="-k checkpoint", make drill ARGS=--help
ARGS ?=
# Tests run in several processes (tests/cores.py), a file in one of them: on two cores in three, which wait half of the time. Say
# TOGETHER= for one process.
TOGETHER ?= -n auto --dist loadfile --no-loadscope-reorder
# Set in many containers: each start would compile everything anew, the asserts of every test included.
unexport PYTHONDONTWRITEBYTECODE
# On a terminal uv shows bars; in a log there are the lines of this file.
QUIET := $(shell test -t 2 || echo --quiet)
# What to answer when Java is missing and apt-get could install it: y or n; empty asks, if there is a terminal to ask on.
ANSWER ?=

# uv does not read pip's settings; where pip is told another index or certificates, uv is told the same.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
ifdef PIP_CERT
export SSL_CERT_FILE ?= $(PIP_CERT)
endif

.PHONY: help
help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: java $(READY) ## create .venv from the lock, check Java, fetch Kafka; the other verbs call it
	@$(BIN)/python -m compileall -qq mirror || echo "mirror/ cannot be compiled ahead, so starts take longer"
# The first only saves time, whatever ends it; without the second there is no Kafka.
	@$(BIN)/python -m mirror.spark & spark=$$!; $(BIN)/python -m mirror.lab.class_archive; kafka=$$?; \
	wait $$spark || echo "Spark's class archive was not made (exit status $$?), so starts take longer"; exit $$kafka

.PHONY: drill
drill: setup ## set up two clusters, mirror, verify, fail over, fail back; prints the report's path
	@$(BIN)/mirror runbook run failover-drill $(ARGS)

.PHONY: test
test: setup ## the suite, on real brokers, the drill included
	@$(BIN)/pytest $(TOGETHER) $(ARGS)

# Each of these starts clusters and engines of its own, which need the cores; a third process only lets waits run out.
.PHONY: test-long
test-long: TOGETHER = -n 2 --dist loadfile --no-loadscope-reorder
test-long: setup ## what adds to it for 12 s and more each: failovers by the commands, a migration, the wheel, outages, secrets, kills
	@$(BIN)/pytest -m "long and not soak" $(TOGETHER) $(ARGS)

.PHONY: test-docker
test-docker: setup ## clusters in containers, where Docker is; an image that cannot be pulled is built of this machine's Java and jars
	@$(BIN)/pytest -m docker $(ARGS)

.PHONY: test-browser
test-browser: setup ## the notebooks as a person clicks through them, in JupyterLab in Chromium; says how to get one where there is none
	@$(BIN)/pytest -m browser tests/browser $(ARGS)

.PHONY: test-kerberos
test-kerberos: setup ## log in at a real KDC; needs apt-get install krb5-kdc krb5-admin-server krb5-user libkrb5-dev gcc python3-dev
	@$(BIN)/uv pip install --quiet --python $(BIN)/python 'gssapi>=1.9'
	@$(BIN)/pytest -m kerberos tests/brokers/test_kerberos.py $(ARGS)

.PHONY: test-spark-cluster
test-spark-cluster: setup ## the engine on a Spark cluster of another user, in another folder, without this checkout; as root
	@$(BIN)/pytest -m spark_cluster tests/brokers/test_spark_cluster.py $(ARGS)

.PHONY: test-topologies
test-topologies: setup ## fan-in, fan-out, a chain, active/active, and three data centres of two clusters each
	@$(BIN)/pytest -m topologies tests/brokers/test_topologies.py $(ARGS)

# Nothing is waited for here, and each process more collects all of the tests.
.PHONY: unit
unit: TOGETHER = -n 2 --dist loadfile --no-loadscope-reorder
unit: $(READY) ## the fast tests: no Kafka, no Spark, no Java
	@$(BIN)/pytest $(TOGETHER) tests/unit $(ARGS)

.PHONY: soak
soak: setup ## the long tests: a hundred kills and freezes under load (MIRROR_SOAK_FAULTS, MIRROR_SOAK_SEED), the bench, turns with Java MirrorMaker, a thousand examples of each property
	@$(BIN)/pytest -m soak -s $(ARGS)
	@$(BIN)/pytest $(TOGETHER) -q tests/unit --hypothesis-profile=thorough

.PHONY: mutations
mutations: setup ## change one line of a rule at a time, in a copy: the tests must notice nine of ten; ARGS="copier/lane --jobs 1" tries some
	@$(BIN)/python -m tests.mutations $(ARGS)

.PHONY: interop
interop: setup ## the black-box cases on this engine and on Java MirrorMaker, and the table of docs/compatibility-rules.md
	@$(BIN)/python -m tests.rules $(ARGS)

.PHONY: scenarios
scenarios: setup ## perform all scenarios, for this engine and Java MirrorMaker 2, and write docs/scenarios.md; ARGS="--repeat 5 --parallel 2"
	@$(BIN)/mirror scenario run all --replicator mirror,mm2 --page docs/scenarios.md $(ARGS)

.PHONY: golden
golden: $(READY) ## compare with what Java MirrorMaker 2 answers; MIRROR_GOLDEN=DIR takes other data of the same form
	@$(BIN)/pytest tests/golden $(ARGS)

.PHONY: check
check: $(READY) ## lint, format, types, and the rules of the code
	@$(BIN)/ruff check --no-cache  # its cache does not see that a module of ours came or went
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/mypy --implicit-reexport --no-warn-unused-ignores tests  # they replace what a module imports by stand-ins
	@$(BIN)/pytest -q tests/house

.PHONY: lab
lab: setup ## open the notebooks in JupyterLab
	@$(BIN)/jupyter lab --config=mirror/drill/jupyter_config.py --notebook-dir=notebooks --LabApp.default_url=/lab/tree/00_index.ipynb $(ARGS)

.PHONY: bench
bench: setup ## measure the copy against Java MirrorMaker 2
	@$(BIN)/mirror bench $(ARGS)

.PHONY: lock
lock: $(READY) ## renew requirements.lock: the newest versions that pyproject.toml allows
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --group dev --extra lab \
	  --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command 'make lock' \
	  pyproject.toml --output-file requirements.lock

.PHONY: clean
clean: ## remove .venv and what tools leave behind; runs/ stays
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis artifacts build spark-warehouse *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: python
python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or later is needed, and $(PYTHON) is $$($(PYTHON) --version 2>&1): say make PYTHON=python3.11, or create the environment with conda env create --file environment.yml."; \
	  exit 1; }

# The project's own words about a missing Java, which the standard library alone can say before anything is installed.
.PHONY: java
java: python
	@missing=$$($(PYTHON) -c 'from mirror.lab import java; java.find()' 2>&1) && exit 0; \
	missing=$$(echo "$$missing" | tail -n 1 | sed 's/^[a-zA-Z.]*JavaMissing: //'); echo "$$missing"; \
	install=$$(echo "$$missing" | sed -n 's/.*run `\(apt-get install [^`]*\)`.*/\1/p'); answer="$(ANSWER)"; \
	test -n "$$install" && command -v apt-get > /dev/null || exit 1; \
	if test -z "$$answer" && test -t 0; then printf 'Run it now? [y/N] '; read -r answer; fi; \
	case "$$answer" in [yY]*) apt-get update --quiet --quiet && DEBIAN_FRONTEND=noninteractive $$install ;; *) exit 1 ;; esac

# pip installs uv, by the hash in the lock; uv, several times faster, checks and installs the rest, builds PySpark's source archive
# with the setuptools of the lock, and installs the project itself without asking a registry. Everything is compiled once, here:
# where PYTHONDONTWRITEBYTECODE is set, as in many containers, every kernel and Spark worker would do it again at each start.
$(READY): requirements.lock pyproject.toml | python
	@echo "Creating .venv from requirements.lock, once: 1 of 3, uv, which installs the rest"
	@test -x $(BIN)/uv || $(PYTHON) -m venv .venv || { \
	  echo "Python's venv module is incomplete: on Debian and Ubuntu, run apt-get install python3-venv."; exit 1; }
	@awk '/^uv==/, !/\\$$/' requirements.lock > .venv/uv.lock
	@test -x $(BIN)/uv || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .venv/uv.lock
	@echo "Creating .venv: 2 of 3, $$(grep -c '^[A-Za-z0-9._-]*==' requirements.lock) packages, 1.3 GB when installed; PySpark, 500 MB of it, takes the longest"
	@$(BIN)/uv pip sync $(QUIET) --compile-bytecode --python $(BIN)/python --require-hashes --build-constraints requirements.lock requirements.lock
	@echo "Creating .venv: 3 of 3, this project"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@
