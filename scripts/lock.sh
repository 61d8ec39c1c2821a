#!/bin/sh
# Lock anew: requirements/*.txt from pyproject.toml and requirements/*.in, one lock for every platform.
# `scripts/lock.sh --upgrade` takes the newest versions, `--upgrade-package NAME` those of one package.
set -eu
cd "$(dirname -- "$0")/.."

compile() {
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --custom-compile-command "make lock" "$@" >/dev/null
}

compile "$@" requirements/build.in -o requirements/build.txt
compile "$@" --extra dev --constraint requirements/constraints.in pyproject.toml -o requirements/dev.txt
# What is shipped: the same versions as are tested.
compile "$@" --extra aws --constraint requirements/dev.txt pyproject.toml -o requirements/lambda.txt
compile "$@" --extra aws --constraint requirements/dev.txt pyproject.toml requirements/lambda-image.in \
    -o requirements/lambda-image.txt
compile "$@" --extra aws --extra kafka --extra kubernetes --extra telemetry --constraint requirements/dev.txt \
    pyproject.toml -o requirements/trigger.txt
compile "$@" --extra job --extra aws --extra azure --extra glue --extra hive --extra kafka --extra kubernetes \
    --extra postgres --extra telemetry --constraint requirements/dev.txt pyproject.toml -o requirements/job.txt
compile "$@" requirements/spark35.in -o requirements/spark35.txt
compile "$@" requirements/ministack.in -o requirements/ministack.txt
compile "$@" requirements/checkov.in -o requirements/checkov.txt
echo "locked: requirements/build.txt, dev.txt, lambda.txt, lambda-image.txt, trigger.txt, job.txt, spark35.txt," \
    "ministack.txt, checkov.txt"
