# Built in one stage, run in another: the image that runs has no compiler, no pip cache and no build tools.
# Its Python is the one that the gate runs on. A tag is whatever it is today: `make pin` writes the digest behind it, and
# then the same base is built upon until the next `make pin`. Another base, or a digest that was looked up elsewhere:
# --build-arg BASE=NAME@sha256:DIGEST.
ARG BASE=python:3.11-slim
FROM ${BASE} AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src

# The dependencies first, by hash: this layer is built again only where the lock changed.
COPY requirements.lock requirements-build.lock ./
RUN python -m venv --without-pip /opt/campaign-worker \
    && pip --python /opt/campaign-worker/bin/python install --require-hashes -r requirements.lock \
    && pip install --require-hashes -r requirements-build.lock

COPY pyproject.toml README.md LICENSE config.yaml ./
COPY rules ./rules
COPY worker ./worker
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/campaign-worker/bin/python install --no-deps --no-index /wheels/*.whl


FROM ${BASE}

# The worker owns its volume and nothing else: it cannot change its own config, rules or code.
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin worker \
    && install -d -o worker -g worker /data
COPY --from=build /opt/campaign-worker /opt/campaign-worker
# Config and rules can be mounted over these; the ledger is taken from the shipped path to the volume.
COPY config.yaml /etc/campaign-worker/config.yaml
COPY rules /etc/campaign-worker/rules
RUN sed -i 's|^ledger: sqlite:///worker.db$|ledger: sqlite:////data/worker.db|' /etc/campaign-worker/config.yaml \
    && grep -q '^ledger: sqlite:////data/worker.db$' /etc/campaign-worker/config.yaml

LABEL org.opencontainers.image.title="campaign-worker" \
      org.opencontainers.image.description="Watches events, decides by rules, and makes each effect happen at most once." \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.licenses="MIT"

ENV PATH=/opt/campaign-worker/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    CAMPAIGN_WORKER_CONFIG=/etc/campaign-worker/config.yaml

# The number, because an orchestrator that asks for a user other than root (runAsNonRoot) cannot know a name.
USER 10001:10001
WORKDIR /data
VOLUME /data
STOPSIGNAL SIGTERM

# Healthy: a complete cycle no older than three intervals, on a ledger that `run` would take again. Unhealthy is a reason
# to look, and restarting is always safe: a ledger that was put back is refused before anything is sent.
# An image in the OCI format cannot hold this: with podman and buildah, build with --format docker.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["campaign-worker", "status", "--healthy"]

ENTRYPOINT ["campaign-worker"]
CMD ["run"]
