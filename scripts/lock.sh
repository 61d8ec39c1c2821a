#!/bin/sh
# Recreates the locks: requirements/*.txt from pyproject.toml and requirements/*.in, one lock for every platform.
# `scripts/lock.sh --upgrade` takes the newest versions, `--upgrade-package NAME` those of one package.
set -eu
cd "$(dirname -- "$0")/.."

compile() {
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --custom-compile-command "make lock" "$@" >/dev/null
}

compile "$@" requirements/build.in -o requirements/build.txt
compile "$@" --extra dev --constraint requirements/constraints.in pyproject.toml -o requirements/dev.txt
compile "$@" --constraint requirements/dev.txt requirements/uv.in -o requirements/uv.txt
# The demo and what is shipped use the tested versions.
compile "$@" --extra job --extra demo --extra telemetry --constraint requirements/dev.txt pyproject.toml \
    -o requirements/demo.txt
compile "$@" --constraint requirements/dev.txt requirements/lambda.in -o requirements/lambda.txt
compile "$@" --constraint requirements/dev.txt requirements/lambda.in requirements/lambda-image.in \
    -o requirements/lambda-image.txt
compile "$@" --extra aws --extra kafka --extra kubernetes --extra telemetry --constraint requirements/dev.txt \
    pyproject.toml -o requirements/trigger.txt
compile "$@" --extra job --extra aws --extra azure --extra glue --extra hive --extra kafka --extra kubernetes \
    --extra postgres --extra telemetry --constraint requirements/dev.txt pyproject.toml -o requirements/job.txt
compile "$@" requirements/spark35.in -o requirements/spark35.txt
compile "$@" requirements/ministack.in -o requirements/ministack.txt
compile "$@" requirements/checkov.in -o requirements/checkov.txt
echo "locked: requirements/build.txt, dev.txt, uv.txt, demo.txt, lambda.txt, lambda-image.txt, trigger.txt, job.txt," \
    "spark35.txt, ministack.txt, checkov.txt"
