# Two commands do everything on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.
.DEFAULT_GOAL := help
# Tests start many processes: without stored bytecode each of them compiles the product again.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup demo check test provision lint format bench soak package images lock clean

help: ## Show this
	@awk 'BEGIN { FS = ":.*## " } /^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Create .venv with the icemirror command and the test tools
	@scripts/setup.sh dev

demo: ## Run changelogs, trigger, Spark and mirrors on this machine, end to end
	@scripts/setup.sh demo
	@.venv/bin/icemirror demo

check: lint ## Lint and unit tests, without Spark or servers
	@.venv/bin/python -m pytest --numprocesses 2 --dist loadfile -q tests/unit

test: provision lint ## Lint, then all tests with fixed seeds, three in parallel
	@.venv/bin/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder --durations 15

# In the background, while this make runs: downloads and builds the servers that the tests need.
provision: setup
	@.venv/bin/python -m tests.provision --while-running $$PPID &

lint: setup ## Style, types and the layers of imports
	@.venv/bin/ruff check --quiet .
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/mypy --no-error-summary
	@scripts/quietly.sh .venv/bin/lint-imports
	@echo "lint: style, types and layers are fine"

format: setup ## Format the code
	@.venv/bin/ruff check --quiet --fix .
	@.venv/bin/ruff format --quiet .

bench: setup ## Run the benchmarks, 105 minutes (ONLY="small lookup" for some parts)
	@.venv/bin/python -m benchmarks run $(ONLY)

soak: setup ## Random seeds, planted defects and fault campaigns; hours, resumable
	@.venv/bin/python -m pytest -m soak --numprocesses 2 tests/sim
	@.venv/bin/python -m pytest -m hypothesis --hypothesis-profile fresh --numprocesses 2 tests/unit tests/tables tests/sim
	@.venv/bin/python -m tests.soak

package: setup ## Build the Lambda zip and the job's bundle in dist (ARGS="--arch arm64")
	@.venv/bin/python scripts/package.py $(ARGS)

images: setup ## Build the images with buildah and run them, as root on Debian, ten minutes
	@scripts/images.sh

lock: setup ## Lock the dependencies with hashes
	@scripts/lock.sh

clean: ## Remove the environment, the demo's data, caches and build output
	@rm -rf .venv .demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist dist-arm64 *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
