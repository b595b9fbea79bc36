# Two images. Neither runs as root; neither holds tests, documentation or build tools.
#   docker build --target service -t ticdc-bridge .              the registry and table history: Python only, no Java
#   docker build --target spark   -t ticdc-bridge-spark .        the Spark jobs: pyspark, Java, Spark's jars
#   docker run -p 127.0.0.1:8081:8081 -v registry:/var/lib/ticdc-bridge ticdc-bridge

ARG PYTHON_VERSION=3.13

FROM python:${PYTHON_VERSION}-slim AS base
RUN groupadd --system --gid 10001 bridge \
 && useradd --system --no-log-init --uid 10001 --gid bridge --home-dir /var/lib/ticdc-bridge \
        --shell /usr/sbin/nologin bridge \
 && install -d -o bridge -g bridge /var/lib/ticdc-bridge
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/opt/ticdc-bridge \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# ---- spark

FROM python:${PYTHON_VERSION}-slim AS spark-packages
WORKDIR /build
RUN python -m venv /opt/venv
COPY requirements/build.txt requirements/build.txt
COPY requirements/spark.txt requirements/spark.txt
# pyspark comes as source and is built with the pinned build packages; all others are wheels.
RUN /opt/venv/bin/pip install --no-cache-dir --no-compile --require-hashes --only-binary :all: -r requirements/build.txt \
 && /opt/venv/bin/pip install --no-cache-dir --no-compile --require-hashes --no-deps --no-build-isolation \
        --only-binary :all: --no-binary pyspark -r requirements/spark.txt
# Spark's Avro, Kafka and Delta jars, checked against the pinned sha256; and the kernels' machine code.
COPY schemas /opt/ticdc-bridge/schemas
COPY spark_jobs /opt/ticdc-bridge/spark_jobs
COPY ticdc_bridge /opt/ticdc-bridge/ticdc_bridge
ENV PYTHONPATH=/opt/ticdc-bridge \
    BRIDGE_CACHE=/opt/cache
RUN /opt/venv/bin/python -m spark_jobs.jars spark delta

FROM base AS spark
COPY --from=spark-packages /opt/venv /opt/venv
COPY --from=spark-packages --chown=bridge:bridge /opt/cache /opt/cache
COPY schemas /opt/ticdc-bridge/schemas
COPY spark_jobs /opt/ticdc-bridge/spark_jobs
COPY ticdc_bridge /opt/ticdc-bridge/ticdc_bridge
ENV BRIDGE_CACHE=/opt/cache
USER 10001:10001
WORKDIR /var/lib/ticdc-bridge
VOLUME /var/lib/ticdc-bridge
# SIGTERM ends a stream after the micro-batch in progress; what is committed by then is not done again.
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "-m", "spark_jobs"]
CMD ["--help"]

# ---- service

FROM python:${PYTHON_VERSION}-slim AS service-packages
WORKDIR /build
COPY requirements/service.txt requirements/service.txt
RUN python -m venv /opt/venv \
 && /opt/venv/bin/pip install --no-cache-dir --no-compile --require-hashes --only-binary :all: -r requirements/service.txt

FROM base AS service
COPY --from=service-packages /opt/venv /opt/venv
COPY schemas /opt/ticdc-bridge/schemas
COPY service /opt/ticdc-bridge/service
COPY ticdc_bridge /opt/ticdc-bridge/ticdc_bridge
ENV BRIDGE_HOST=0.0.0.0 \
    BRIDGE_PORT=8081 \
    BRIDGE_STORE=sqlite:////var/lib/ticdc-bridge/registry.db
USER 10001:10001
WORKDIR /var/lib/ticdc-bridge
VOLUME /var/lib/ticdc-bridge
EXPOSE 8081
# Asks the port in BRIDGE_PORT whether the store can be used. With TLS or authentication for health checks switched
# on, give the container a health check of its own.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ['BRIDGE_PORT']}/health/ready\", timeout=4)"]
# Requests in progress are finished (at most 25 s) before the process ends.
STOPSIGNAL SIGTERM
CMD ["python", "-m", "service", "serve"]
