#!/usr/bin/env bash
# Builds the image from the Dockerfile as it is, without a daemon and without a registry of images: on a base that
# debootstrap makes, by buildah, everything below .image. Prints the image's name.
set -euo pipefail
cd "$(dirname "$0")/../.."

store=$PWD/.image
image=localhost/tayho:test
base=localhost/tayho-base:test
export CONTAINERS_STORAGE_CONF=$store/storage.conf BUILDAH_ISOLATION=chroot

# No overlay file systems are asked for, so that it also builds inside a container.
mkdir -p "$store"
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s"\nrunroot = "%s"\n' "$store/graph" "$store/run" >"$store/storage.conf"

make_base() {
    local root container
    root=$(mktemp -d -p "$store")
    debootstrap --variant=minbase --include=python3,python3-venv,python-is-python3 bookworm "$root" >"$store/base.log" 2>&1 ||
        { tail -n 20 "$store/base.log" >&2; return 1; }
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$root" / >/dev/null
    buildah commit --quiet "$container" "$base" >/dev/null
    buildah rm "$container" >/dev/null
    rm -rf "$root"
}

buildah inspect --type image "$base" >/dev/null 2>&1 || make_base
secrets=$(mktemp -d -p "$store")
trap 'rm -rf "$secrets"' EXIT
.venv/bin/python -m tools.image.pip_settings "$secrets/pip.conf"
authorities=${PIP_CERT:-${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}}
buildah bud --format docker --build-arg "BASE=$base" --secret "id=pip_conf,src=$secrets/pip.conf" \
    --secret "id=ca_bundle,src=$authorities" --tag "$image" . >"$store/build.log" 2>&1 ||
    { tail -n 20 "$store/build.log" >&2; exit 1; }
# The image of the last build has lost its name.
buildah rmi --prune >/dev/null 2>&1 || true
echo "$image"
