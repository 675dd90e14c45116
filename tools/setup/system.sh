#!/usr/bin/env bash
# Finds what the project needs of the system: Python 3.11, Node.js 20, npm, Redis 7. Root gets what is missing from apt;
# anybody else is told the one command. With `python` as argument it only prints the interpreter to use; with `tests` or
# `image` it finds what the tests, or building the image, need besides.
set -euo pipefail

say() { printf 'setup: %s\n' "$1" >&2; }

refuse() {
    say "$1"
    exit 1
}

# Install Debian packages where that is possible, else name the command.
provide() { # what, packages…
    local what=$1
    shift
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        refuse "$what is missing. Install it with: sudo apt-get install $*"
    fi
    say "$what is missing: installing $*"
    apt-get -qq update >/dev/null 2>&1 || true
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$@" >/dev/null 2>&1 ||
        refuse "$what is missing and apt-get could not install it. Try: apt-get install $*"
}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    local name
    for name in "${PYTHON:-python3.11}" python3.11 python3.12 python3.13 python3; do
        if is_new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
    return 1
}

need_python() {
    find_python >/dev/null || provide "Python 3.11 or newer" python3.11 python3.11-venv
    find_python >/dev/null || refuse "Python 3.11 or newer is missing: install it, or set PYTHON to one"
    local python
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' 2>/dev/null || provide "venv for $python" python3-venv
}

have() { command -v "$1" >/dev/null; }

need_node() {
    { have node && have npm; } || provide "Node.js with npm" nodejs npm
    { have node && have npm; } || refuse "Node.js with npm was installed but is not on PATH"
    local version
    version=$(node --version)
    version=${version#v}
    [ "${version%%.*}" -ge 20 ] || refuse "Node.js 20 or newer is needed, this is $version: install a newer one"
}

need_redis() {
    have redis-server || provide "redis-server" redis-server
    have redis-server || refuse "redis-server was installed but is not on PATH"
    local version
    version=$(redis-server --version | sed -n 's/.* v=\([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge 7 ] || refuse "Redis 7 or newer is needed, this is ${version:-unknown}: install a newer one"
}

# Gives single processes of the tests a clock that is an hour off.
need_faketime() {
    have faketime || provide "faketime" faketime
    have faketime || refuse "faketime was installed but is not on PATH"
}

# They build the image without a daemon, on a base made of Debian's packages.
need_buildah() {
    { have buildah && have debootstrap; } || provide "buildah with debootstrap" buildah debootstrap
    { have buildah && have debootstrap; } || refuse "buildah and debootstrap were installed but are not on PATH"
    [ "$(id -u)" = 0 ] || refuse "the image is built and run as root, which mounts and changes identities: use sudo"
}

if [ "${1:-}" = tests ]; then
    need_faketime
    exit
fi
if [ "${1:-}" = image ]; then
    need_buildah
    exit
fi
need_python
if [ "${1:-}" = python ]; then
    find_python
    exit
fi
need_node
need_redis
