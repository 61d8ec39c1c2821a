#!/bin/sh
# Builds the images and tries them, if all that this needs is here; else says in one line what is not.
set -eu

missing=
for tool in buildah:buildah debootstrap:debootstrap qemu-aarch64-static:qemu-user-static; do
    command -v "${tool%%:*}" >/dev/null 2>&1 || missing="$missing ${tool#*:}"
done
if [ -n "$missing" ]; then
    echo "images: not here:$missing (Debian: sudo apt-get install --no-install-recommends$missing)" >&2
    exit 2
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "images: only root can build them, with chroot: run \`sudo make images\`" >&2
    exit 2
fi
# As in CI, what cannot be had is a failure: nothing was asked for but this.
exec env CI=true .venv/bin/python -m pytest tests/images
