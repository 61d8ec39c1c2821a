#!/bin/sh
# Builds and tests the images. If a tool is missing, prints its name and exits with 2.
set -eu

missing=
for tool in buildah:buildah debootstrap:debootstrap qemu-aarch64-static:qemu-user-static; do
    command -v "${tool%%:*}" >/dev/null 2>&1 || missing="$missing ${tool#*:}"
done
if [ -n "$missing" ]; then
    echo "images: not installed:$missing (Debian: sudo apt-get install --no-install-recommends$missing)" >&2
    exit 2
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "images: building requires root: run \`sudo make images\`" >&2
    exit 2
fi
# CI=true makes an unavailable dependency a failure instead of a skipped test.
exec env CI=true .venv/bin/python -m pytest tests/images
