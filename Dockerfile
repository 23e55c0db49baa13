# Tidegate with every extra and every pinned jar: a run needs no package index and no registry of jars.
#
#   docker build --build-arg VERSION=0.1.0 --tag tidegate .
#   docker run --rm --volume "$PWD:/work" tidegate run

ARG PYTHON=python:3.11-slim-bookworm

FROM ${PYTHON} AS build
ARG VERSION=0.1.0.dev0
ENV SETUPTOOLS_SCM_PRETEND_VERSION=${VERSION} UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy
WORKDIR /src
COPY scripts/uv.txt scripts/uv.txt
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir --require-hashes --requirement scripts/uv.txt
COPY pyproject.toml uv.lock README.md LICENSE ./
# The lock file is that of all packages of the repository; only Tidegate itself is installed.
COPY packages packages
COPY scripts/project_urls.py scripts/project_urls.py
COPY docs/errors.md docs/errors.md
COPY src src
COPY examples examples
RUN /opt/uv/bin/uv export --quiet --locked --all-extras --no-dev --no-emit-project --output-file requirements.txt \
    && /opt/uv/bin/uv build --quiet --wheel --out-dir dist \
    && /opt/uv/bin/uv venv --quiet --python python3 /opt/tidegate \
    && /opt/uv/bin/uv pip install --quiet --no-cache --python /opt/tidegate/bin/python --require-hashes \
        --requirement requirements.txt \
    && /opt/uv/bin/uv pip install --quiet --no-cache --python /opt/tidegate/bin/python --no-deps dist/*.whl

FROM ${PYTHON}
ARG VERSION=0.1.0.dev0
LABEL org.opencontainers.image.title="Tidegate" \
      org.opencontainers.image.description="Incremental loading into Iceberg and Delta tables on Spark" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home --shell /usr/sbin/nologin tidegate
COPY --from=build /opt/tidegate /opt/tidegate
ENV PATH=/opt/tidegate/bin:$PATH TIDEGATE_CACHE=/opt/tidegate-jars PYTHONUNBUFFERED=1
RUN python -m tidegate.spark.jars --all && mkdir /work /warehouse && chown tidegate /work /warehouse
USER 10001
WORKDIR /work
ENTRYPOINT ["tidegate"]
CMD ["--help"]
