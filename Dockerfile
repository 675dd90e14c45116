# One image for every role: `docker run IMAGE run automation`. Nothing in it is written to, so that the root file system
# can be read-only; nothing in it runs as root.

FROM python:3.11-slim AS build
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN python -m venv /opt/tayho
COPY requirements/build.lock requirements/runtime.lock requirements/
# Dependencies first: they change less often than the code.
RUN python -m pip install --quiet --require-hashes --requirement requirements/build.lock \
    && /opt/tayho/bin/python -m pip install --quiet --require-hashes --requirement requirements/runtime.lock
COPY pyproject.toml README.md ./
COPY nursery nursery
COPY storage storage
COPY rpc rpc
COPY sql sql
COPY tayho tayho
RUN python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir wheels . \
    && /opt/tayho/bin/python -m pip install --quiet --no-deps wheels/*.whl \
    && /opt/tayho/bin/python -m compileall -q /opt/tayho

FROM python:3.11-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin tayho
COPY --from=build /opt/tayho /opt/tayho
ENV PATH=/opt/tayho/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HTTP_BIND=0.0.0.0:8080
USER 10001
EXPOSE 8080
# Alive is all that is asked here; readiness is the orchestrator's question, at /readyz.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['HTTP_BIND'].rpartition(':')[2] + '/healthz', timeout=2)"]
# SIGTERM drains the process; Docker must wait longer than DRAIN_SECONDS before it kills: `docker stop --timeout 70`.
STOPSIGNAL SIGTERM
ENTRYPOINT ["tayho"]
CMD ["--help"]
