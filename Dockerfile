# The command `thoth` against external stores; the embedded ones stay out of the image.
# By itself it serves over HTTPS: DATABASE_URL and GRAPH_URL say where the stores are.
# `.ci/pin-images` adds the digests of base images here and wherever else one is named.
FROM python:3.12-slim

RUN useradd --system --uid 10001 --create-home thoth \
    && install --directory --owner thoth --group thoth /var/lib/thoth

WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --no-deps --require-hashes --requirement locks/service.txt \
    && pip install --no-cache-dir --no-deps --no-build-isolation . \
    && rm --recursive --force /src/*

USER thoth
WORKDIR /var/lib/thoth
ENV THOTH_HOME=/var/lib/thoth PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
VOLUME /var/lib/thoth
EXPOSE 8443
ENTRYPOINT ["thoth"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8443", "--tls-self-signed"]
