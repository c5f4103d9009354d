# relaylite in a container, for the CPU (the default target) or for NVIDIA cards. docs/installation.md says how to build and run it.
# dist/wheels, as .ci/wheels fills it, is used if it is there; otherwise llama.cpp is compiled. No file of the build stages is kept.
ARG PYTHON_IMAGE=python:3.12-slim-bookworm
ARG CUDA_VERSION=12.8.1

FROM nvidia/cuda:${CUDA_VERSION}-devel-ubuntu24.04 AS build-cuda
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
ENV CMAKE_ARGS="-DGGML_CUDA=on -DGGML_NATIVE=off"
# With pip's cache, llama.cpp is compiled once: the build of relaylite and the environment use the same wheel.
# hadolint ignore=DL3042
RUN python3 -m venv /opt/relaylite && /opt/relaylite/bin/pip install '.[demo]'

FROM nvidia/cuda:${CUDA_VERSION}-runtime-ubuntu24.04 AS cuda
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 python3 \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o 1000 -g 1000 /data
COPY --from=build-cuda /opt/relaylite /opt/relaylite
ENV PATH="/opt/relaylite/bin:$PATH" RELAYLITE_HOME=/data HF_HOME=/data/models
VOLUME /data
WORKDIR /data
USER 1000:1000
ENTRYPOINT ["relaylite"]

FROM ${PYTHON_IMAGE} AS build-cpu
WORKDIR /source
COPY . .
ENV CMAKE_ARGS="-DGGML_NATIVE=off"
# hadolint ignore=DL3008,DL3042
RUN python3 -m venv /opt/relaylite \
    && if ls dist/wheels/relaylite-*.whl; then \
        /opt/relaylite/bin/pip install --no-cache-dir --no-index --find-links dist/wheels 'relaylite[demo]'; \
    else \
        apt-get update \
        && apt-get install -y --no-install-recommends g++ \
        && /opt/relaylite/bin/pip install '.[demo]'; \
    fi

FROM ${PYTHON_IMAGE} AS cpu
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o 1000 -g 1000 /data
COPY --from=build-cpu /opt/relaylite /opt/relaylite
ENV PATH="/opt/relaylite/bin:$PATH" RELAYLITE_HOME=/data HF_HOME=/data/models
VOLUME /data
WORKDIR /data
USER 1000:1000
ENTRYPOINT ["relaylite"]
