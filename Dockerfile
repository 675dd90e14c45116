# One image for every role: `docker run IMAGE run automation`. Nothing in it is written to, so that the root file system
# can be read-only; nothing in it runs as root.
#
# BASE is any Debian or Ubuntu with Python 3.11 or newer as `python`, and its venv module. Pin it by digest where images
# are released: --build-arg BASE=python:3.11-slim-bookworm@sha256:…
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# What builds stays in this stage: the environment that is shipped has no installer in it.
RUN python -m venv tools && python -m venv --without-pip /opt/tayho
COPY requirements/build.lock requirements/runtime.lock requirements/
# Dependencies first: they change less often than the code. Where packages come through a mirror, the build is given its
# settings and certificates as the secrets pip_conf and ca_bundle; no layer keeps either.
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca_bundle,target=/etc/ssl/certs/ca-certificates.crt \
    tools/bin/pip install --quiet --require-hashes --requirement requirements/build.lock \
    && tools/bin/pip --python /opt/tayho/bin/python install --quiet --require-hashes --requirement requirements/runtime.lock
COPY pyproject.toml README.md ./
COPY nursery nursery
COPY storage storage
COPY rpc rpc
COPY sql sql
COPY tayho tayho
# Compiled now, because nothing can be written later; by hash, so that equal sources make equal files.
RUN tools/bin/pip wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir wheels . \
    && tools/bin/pip --python /opt/tayho/bin/python install --quiet --no-index --no-deps --no-compile wheels/*.whl \
    && /opt/tayho/bin/python -m compileall -q -f --invalidation-mode unchecked-hash /opt/tayho

FROM ${BASE}
# The number is the identity, so that an orchestrator can see that it is not root; the name is for people.
RUN groupadd --system --gid 10001 tayho \
    && useradd --system --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin tayho
COPY --from=build /opt/tayho /opt/tayho
ENV PATH=/opt/tayho/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HTTP_BIND=0.0.0.0:8080
USER 10001:10001
EXPOSE 8080
# Alive is all that is asked here; readiness is the orchestrator's question, at /readyz.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["tayho", "health"]
# SIGTERM drains the process, which is PID 1 itself: no shell stands between. Docker must wait longer than DRAIN_SECONDS
# before it kills: `docker stop --time 75`.
STOPSIGNAL SIGTERM
ENTRYPOINT ["tayho"]
CMD ["--help"]
