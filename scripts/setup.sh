#!/bin/sh
# Creates .venv: `setup.sh demo` with what the demo needs, `setup.sh dev` (default) with the test tools as well.
# Quick and silent if that is done. Finds a Python; the rest is setup.py. POSIX sh, because macOS has nothing newer.
set -eu

kind=${1:-dev}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$root"

# The user's own Python configuration must not leak into ours.
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP
PYTHONNOUSERSITE=1
export PYTHONNOUSERSITE

if [ -x .venv/bin/python ] && .venv/bin/python -I -S scripts/setup.py --check "$kind" 2>/dev/null; then
    exit 0
fi

# A Python 3.11 or newer outside of .venv, which may be about to be replaced.
fits() {
    "$1" -I -c 'import sys; sys.exit(sys.version_info < (3, 11) or sys.prefix == sys.argv[1])' \
        "$root/.venv" >/dev/null 2>&1
}

if [ -n "${PYTHON:-}" ]; then
    fits "$PYTHON" && exec "$PYTHON" -I scripts/setup.py "$kind"
    echo "setup: PYTHON=$PYTHON is not a Python 3.11 or newer outside of .venv: point it at one, or unset it" >&2
    exit 2
fi

for python in python3.13 python3.12 python3.11 python3 python; do
    fits "$python" && exec "$python" -I scripts/setup.py "$kind"
done

echo "setup: no Python 3.11 or newer found: install one (Debian, Ubuntu: sudo apt-get install python3 python3-venv;" \
    "macOS: brew install python@3.12), or point PYTHON at one" >&2
exit 2
