# syntax=docker/dockerfile:1
#   docker build --target trigger -t icemirror-trigger .
#   docker build --target function -t icemirror-function .
#   docker build --target job -t icemirror-job .
#   make package && docker build --target job-emr -t icemirror-job-emr .
# docs/how-to/packaging.md describes builds for a registry and for other architectures.
# All packages are locked by hash. Set the base images by digest for reproducible builds.
ARG PYTHON_BASE=python:3.12-slim-bookworm
ARG EMR_BASE=public.ecr.aws/emr-serverless/spark/emr-7.13.0

# ---- build stages: compilers and caches stay in them
FROM ${PYTHON_BASE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
COPY requirements/build.txt requirements/lambda-image.txt requirements/trigger.txt requirements/job.txt requirements/
COPY pyproject.toml README.md LICENSE ./
COPY icemirror icemirror
COPY trigger trigger
COPY spark_job spark_job

FROM build AS build-trigger
RUN python -m venv /opt/icemirror/venv \
 && /opt/icemirror/venv/bin/pip install --require-hashes --no-deps -r requirements/build.txt \
 && /opt/icemirror/venv/bin/pip install --require-hashes --no-deps --only-binary :all: -r requirements/trigger.txt \
 && /opt/icemirror/venv/bin/pip install --no-deps --no-build-isolation . \
 && /opt/icemirror/venv/bin/pip uninstall --yes setuptools pip

FROM build AS build-function
RUN python -m venv /opt/icemirror/venv \
 && /opt/icemirror/venv/bin/pip install --require-hashes --no-deps -r requirements/build.txt \
 && /opt/icemirror/venv/bin/pip install --require-hashes --no-deps --only-binary :all: -r requirements/lambda-image.txt \
 && /opt/icemirror/venv/bin/pip install --no-deps --no-build-isolation . \
 && /opt/icemirror/venv/bin/pip uninstall --yes setuptools pip

FROM build AS build-job
RUN python -m venv /opt/icemirror/venv \
 && /opt/icemirror/venv/bin/pip install --require-hashes --no-deps -r requirements/build.txt \
 && /opt/icemirror/venv/bin/pip install --require-hashes --no-deps --no-build-isolation -r requirements/job.txt \
 && /opt/icemirror/venv/bin/pip install --no-deps --no-build-isolation . \
 && /opt/icemirror/venv/bin/pip uninstall --yes setuptools pip

# ---- trigger: serve, sweep, and every command without Spark
FROM ${PYTHON_BASE} AS trigger
LABEL org.opencontainers.image.title="icemirror trigger" \
      org.opencontainers.image.description="Receives commits on Iceberg changelogs and launches merges" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 icemirror \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin icemirror
COPY --from=build-trigger /opt/icemirror /opt/icemirror
ENV PATH=/opt/icemirror/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 ICEMIRROR_CONFIG=/etc/icemirror/icemirror.yaml
USER 10001:10001
WORKDIR /tmp
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=4)"]
ENTRYPOINT ["icemirror"]
CMD ["serve", "--http", "0.0.0.0:8080"]

# ---- function: the trigger on AWS Lambda
FROM ${PYTHON_BASE} AS function
LABEL org.opencontainers.image.title="icemirror function" \
      org.opencontainers.image.description="Receives commits on Iceberg changelogs and launches merges, on AWS Lambda" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 icemirror \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin icemirror
COPY --from=build-function /opt/icemirror /opt/icemirror
ENV PATH=/opt/icemirror/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /tmp
HEALTHCHECK NONE
ENTRYPOINT ["/opt/icemirror/venv/bin/python", "-m", "awslambdaric"]
CMD ["trigger.handler.handler"]

# ---- job: Spark on Kubernetes. Spark comes from PyPI, so that driver, executors and code have one version
FROM ${PYTHON_BASE} AS job
LABEL org.opencontainers.image.title="icemirror job" \
      org.opencontainers.image.description="Merges Iceberg changelogs into mirrors, on Spark" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && groupadd --gid 10001 icemirror \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin icemirror
COPY --from=build-job /opt/icemirror /opt/icemirror
COPY --chmod=0755 infra/images/spark-entrypoint.sh /opt/entrypoint.sh
COPY spark_job/worker/icemirror_job.py /opt/icemirror/icemirror_job.py
# Real folders, because Kubernetes mounts Spark's configuration into conf.
RUN mkdir -p /opt/spark/conf /opt/spark/work-dir \
 && for part in bin sbin jars python; do ln -s /opt/icemirror/venv/lib/python3*/site-packages/pyspark/$part /opt/spark/$part; done
ENV PATH=/opt/icemirror/venv/bin:/opt/spark/bin:$PATH SPARK_HOME=/opt/spark PYTHONDONTWRITEBYTECODE=1 \
    PYSPARK_PYTHON=/opt/icemirror/venv/bin/python PYSPARK_DRIVER_PYTHON=/opt/icemirror/venv/bin/python
USER 10001:10001
WORKDIR /tmp
HEALTHCHECK NONE
ENTRYPOINT ["/opt/entrypoint.sh"]

# ---- job-emr: a custom image for EMR Serverless. EMR provides Spark, Java and the user; `make package` the environment
FROM ${EMR_BASE} AS job-emr
LABEL org.opencontainers.image.title="icemirror job for EMR Serverless" \
      org.opencontainers.image.description="Merges Iceberg changelogs into mirrors, on Spark" \
      org.opencontainers.image.licenses="Apache-2.0"
USER root
# Must match the architecture of the image: make package ARGS="--arch arm64 --out dist-arm64" for linux/arm64.
ARG DIST=dist
ADD ${DIST}/icemirror-job.tar.gz /opt/icemirror/venv/
COPY spark_job/worker/icemirror_job.py /opt/icemirror/icemirror_job.py
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYSPARK_PYTHON=/opt/icemirror/venv/bin/python PYSPARK_DRIVER_PYTHON=/opt/icemirror/venv/bin/python
# Fails the build, not the first job, if the package has another architecture or Python version.
RUN ["/opt/icemirror/venv/bin/python", "-c", "import pyarrow"]
HEALTHCHECK NONE
USER hadoop:hadoop
