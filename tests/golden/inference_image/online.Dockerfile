FROM firstlight/base:sha256-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
ARG SOURCE_DATE_EPOCH=1793491200
RUN printf '%s\n' 'deb [signed-by=/usr/share/keyrings/archive.gpg check-valid-until=no] https://snapshot.example/ubuntu/20261101T000000Z noble main universe' 'deb [signed-by=/usr/share/keyrings/archive.gpg check-valid-until=no] https://snapshot.example/ubuntu/20261101T000000Z noble-updates main universe' > /etc/apt/firstlight.list \
    && apt-get update -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::SourceList=/etc/apt/firstlight.list \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::SourceList=/etc/apt/firstlight.list g++ python3.12-venv \
    && rm -rf /var/lib/apt/lists/*
COPY engine.lock /opt/engine.lock
RUN python3.12 -m venv /opt/engine \
    && /opt/engine/bin/python -m pip install --require-hashes --no-deps --only-binary=:all: --no-cache-dir --disable-pip-version-check --index-url=https://i.example/simple --requirement /opt/engine.lock
ENV VIRTUAL_ENV=/opt/engine
ENV PATH=/opt/engine/bin:$PATH
ENV CUDA_HOME="/usr/local/cuda"
LABEL io.firstlight.recipe=sha256:0b451f4572f7de7510121b137dbab6f9e61a93d01c53377837ef83bfcca8f8c2
LABEL io.firstlight.recipe.name=vllm-gb10
LABEL io.firstlight.recipe.base=sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
ENTRYPOINT []
