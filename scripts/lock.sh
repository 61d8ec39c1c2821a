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
compile "$@" requirements/spark35.in -o requirements/spark35.txt
compile "$@" requirements/ministack.in -o requirements/ministack.txt
echo "locked: requirements/build.txt, dev.txt, spark35.txt, ministack.txt"
