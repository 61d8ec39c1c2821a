#!/bin/sh
# Run a command; print its output only if it fails.
output=$("$@" 2>&1) || {
    code=$?
    printf '%s\n' "$output" >&2
    exit "$code"
}
