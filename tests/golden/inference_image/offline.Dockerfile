FROM firstlight/base:sha256-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb AS packages
ARG SOURCE_DATE_EPOCH=1793491200
COPY packages/ /tmp/firstlight-packages/
RUN DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::SourceList=/dev/null /tmp/firstlight-packages/*.deb \
    && dpkg --status g++ python3.12-venv >/dev/null \
    && rm -rf /tmp/firstlight-packages
FROM packages AS wheels
LABEL io.firstlight.stage=sha256:0b451f4572f7de7510121b137dbab6f9e61a93d01c53377837ef83bfcca8f8c2
ARG SOURCE_DATE_EPOCH=1793491200
COPY engine.lock /opt/engine.lock
COPY wheels/ /tmp/firstlight-wheels/
RUN python3.12 -m venv --without-pip /opt/engine \
    && if /opt/engine/bin/python -c 'import ensurepip' 2>/dev/null; then \
         /opt/engine/bin/python -m ensurepip && pip="-m pip"; \
       else \
         pip=$(echo /tmp/firstlight-wheels/pip-*.whl)/pip; \
       fi \
    && /opt/engine/bin/python $pip install --require-hashes --no-deps --only-binary=:all: --no-cache-dir --disable-pip-version-check --no-index --find-links=/tmp/firstlight-wheels --requirement /opt/engine.lock
FROM packages
COPY --from=wheels /opt/engine /opt/engine
COPY engine.lock /opt/engine.lock
ENV VIRTUAL_ENV=/opt/engine
ENV PATH=/opt/engine/bin:$PATH
ENV CUDA_HOME="/usr/local/cuda"
LABEL io.firstlight.recipe=sha256:0b451f4572f7de7510121b137dbab6f9e61a93d01c53377837ef83bfcca8f8c2
LABEL io.firstlight.recipe.name=vllm-gb10
LABEL io.firstlight.recipe.base=sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
ENTRYPOINT []
