#!/bin/sh
# Run a command; show what it says only if it fails.
said=$("$@" 2>&1) || {
    code=$?
    printf '%s\n' "$said" >&2
    exit "$code"
}
