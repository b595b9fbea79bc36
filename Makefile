# `make` lists the targets. Python 3.11 to 3.13 and make are all that has to be there; see docs/operate.md.
PYTHON ?=
UV ?= uv
# Processes that run tests; by default four for quick tests, of which many wait for brokers and services, three for others.
WORKERS ?=
VENV := .venv/bin
# Compiled files are kept, or each worker compiles all tests anew: 10 s of CPU.
PYTEST := PYTHONDONTWRITEBYTECODE= $(VENV)/pytest -n $(or $(WORKERS),3) --dist loadfile --no-loadscope-reorder
QUICK := -n $(or $(WORKERS),4) -m "not slow" --hypothesis-profile quick
PIN := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo test test-all test-changed test-slow test-costs fuzz soak zip check audit format lock docs bench clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do printf '  %-12s %s\n' "$$name" "$$text"; done

setup: ## make .venv with what running needs, from the pinned lock (PYTHON=… chooses the interpreter)
	@python=$$(PYTHON="$(PYTHON)" scripts/python.sh) && "$$python" -m scripts.setup

setup-dev: ## the same with what tests and tools need, too
	@python=$$(PYTHON="$(PYTHON)" scripts/python.sh) && "$$python" -m scripts.setup --dev

demo: setup ## show the whole thing at work
	$(VENV)/python -m spark_jobs demo

test: setup-dev ## run the tests that are not slow, with a real broker, Spark and PostgreSQL (ARGS=… goes to pytest, WORKERS=0 for one process)
	$(PYTEST) $(QUICK) $(ARGS)

test-all: setup-dev ## run all tests, the slow ones too
	$(PYTEST) $(ARGS)

test-changed: setup-dev ## run the tests, not the slow ones, of the packages that differ from main
	@files=$$($(VENV)/python -m tests.support.changed) && if [ -n "$$files" ]; then echo "$$files"; $(PYTEST) $(QUICK) $$files $(ARGS); else echo "nothing differs from main"; fi

test-slow: setup-dev ## run slow tests for a time (SECONDS=600), each day others first
	$(PYTEST) --slow-until $$(( $$(date +%s) + $(or $(SECONDS),600) )) $(ARGS)

test-costs: setup-dev ## run all tests and write what each file costs to tests/costs.tsv
	$(PYTEST) --costs tests/costs.tsv $(ARGS)

fuzz: setup-dev ## damage messages: 1,000,000 a decoder (BRIDGE_FUZZ=…), or for a time with SECONDS=600; finds join tests/corpus
	$(if $(SECONDS),$(VENV)/python -m tests.fuzzing --seconds $(SECONDS) $(ARGS),BRIDGE_FUZZ=$${BRIDGE_FUZZ:-1000000} $(VENV)/pytest --timeout=0 tests/schemas/*/test_bad_*.py tests/schemas/formats/*/test_bad_*.py tests/spark_jobs/arrow/test_bad_craft.py $(ARGS))

soak: setup-dev ## kill and restart service, database and jobs under load for long: 500 rounds of the service (BRIDGE_SOAK=… for others), 20 of a job; every golden case by Spark's own Avro plans; merge by deltalake; 200 random histories with a load
	BRIDGE_SOAK=$${BRIDGE_SOAK:-500} $(VENV)/pytest --timeout=0 tests/service/store/test_durability.py tests/service/api/test_store_outage.py tests/service/store/test_processes.py tests/survival tests/e2e/test_kills.py tests/e2e/test_outages.py tests/spark_jobs/spark/test_same_as_codec.py tests/spark_jobs/lake/test_merge_delta_rs.py tests/spark_jobs/lake/test_direct_merge.py $(ARGS)
	BRIDGE_SOAK=$${BRIDGE_SOAK:-200} $(VENV)/pytest --timeout=0 tests/spark_jobs/snapshots/test_random_loads.py $(ARGS)

zip: setup ## dist/ticdc_bridge.zip and dist/bridge.py, for spark-submit
	$(VENV)/python -m spark_jobs package --dir dist

check: setup-dev ## formatting, lint, types, import rules
	$(VENV)/ruff format --check .
	$(VENV)/ruff check .
	$(VENV)/mypy
	$(VENV)/lint-imports

audit: setup-dev ## look up the packages of the lock in the vulnerability service (exit code 3: it can not be reached)
	$(VENV)/python -m scripts.audit

format: setup-dev ## format the code and fix what can be fixed
	$(VENV)/ruff check --fix-only --quiet .
	$(VENV)/ruff format .

lock: ## pin all packages anew (needs uv; UPGRADE=1 takes the newest versions)
	@command -v $(UV) >/dev/null || { echo "error: 'make lock' needs uv: install it, or name it with UV=/path/to/uv" >&2; exit 2; }
	$(PIN) $(if $(UPGRADE),--upgrade) requirements/build.in -o requirements/build.txt
	$(PIN) $(if $(UPGRADE),--upgrade) requirements/uv.in -o requirements/uv.txt
	$(PIN) $(if $(UPGRADE),--upgrade) --extra service --extra spark --extra java --extra deltalake --extra openlineage --extra dev pyproject.toml -o requirements/lock.txt
	sed -E '/^ +--hash/d; s/ \\$$//' requirements/lock.txt > requirements/.versions.txt
	$(PIN) --extra service -c requirements/.versions.txt pyproject.toml -o requirements/service.txt
	$(PIN) --extra spark --extra java -c requirements/.versions.txt pyproject.toml -o requirements/spark.txt
	rm -f requirements/.versions.txt

docs: setup-dev ## write the generated parts of docs/ anew
	$(VENV)/python -m tests.matrix

bench: setup-dev ## measure, and write docs/benchmarks.md (ARGS=--quick for the short form, or ARGS="NAME …")
	$(VENV)/python -m benchmarks --page $(ARGS)

clean: ## remove .venv and what the tools left (the jars in the user's cache stay)
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse build dist ticdc_bridge.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
