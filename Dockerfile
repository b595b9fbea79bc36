# The registry service: Python only, no Java. Not part of the image: Spark jobs, tests, documentation.
#   docker build --target service -t ticdc-bridge .
#   docker run -p 8081:8081 -v registry:/var/lib/ticdc-bridge ticdc-bridge

ARG PYTHON_VERSION=3.13

FROM python:${PYTHON_VERSION}-slim AS packages
WORKDIR /build
COPY requirements/service.txt requirements/service.txt
RUN python -m venv /opt/venv \
 && /opt/venv/bin/pip install --no-cache-dir --no-compile --require-hashes --only-binary :all: -r requirements/service.txt

FROM python:${PYTHON_VERSION}-slim AS service
RUN groupadd --system --gid 10001 bridge \
 && useradd --system --uid 10001 --gid bridge --home-dir /var/lib/ticdc-bridge --shell /usr/sbin/nologin bridge \
 && install -d -o bridge -g bridge /var/lib/ticdc-bridge
COPY --from=packages /opt/venv /opt/venv
COPY schemas /opt/ticdc-bridge/schemas
COPY service /opt/ticdc-bridge/service

ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/opt/ticdc-bridge \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    BRIDGE_HOST=0.0.0.0 \
    BRIDGE_PORT=8081 \
    BRIDGE_STORE=sqlite:////var/lib/ticdc-bridge/registry.db

USER bridge
WORKDIR /var/lib/ticdc-bridge
VOLUME /var/lib/ticdc-bridge
EXPOSE 8081

# Asks the port in BRIDGE_PORT whether the store can be used.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ['BRIDGE_PORT']}/health/ready\", timeout=4)"]

# Requests in progress are finished (at most 25 s) before the process ends.
STOPSIGNAL SIGTERM
CMD ["python", "-m", "service", "serve"]
