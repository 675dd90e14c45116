#!/usr/bin/env bash
# Makes .venv as requirements/dev.lock says, and puts the project into it. Run again, it only mends what differs.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Where pip and uv find packages is the host's own affair; what they say beside errors is noise.
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore UV_NO_PROGRESS=1
# A link into a cache on another file system is refused, with a warning, before uv copies.
export UV_LINK_MODE=copy

if ! .venv/bin/python -c 'import sys' >/dev/null 2>&1; then
    rm -rf .venv
    "$(bash tools/setup/system.sh python)" -m venv .venv
fi
if ! cmp -s requirements/build.lock .venv/build.lock; then
    .venv/bin/python -m pip install --quiet --quiet --require-hashes --requirement requirements/build.lock
    cp requirements/build.lock .venv/build.lock
fi
.venv/bin/uv pip sync --quiet --python .venv/bin/python --require-hashes requirements/dev.lock
.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
