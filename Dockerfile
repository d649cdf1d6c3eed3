# The command `thoth` against external stores; the embedded ones stay out of the image.
FROM python:3.12-slim

RUN useradd --system --uid 10001 --create-home thoth \
    && install --directory --owner thoth --group thoth /var/lib/thoth

WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --constraint constraints.txt '.[server]' \
    && rm --recursive --force /src/*

USER thoth
WORKDIR /var/lib/thoth
ENV THOTH_HOME=/var/lib/thoth PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
VOLUME /var/lib/thoth
ENTRYPOINT ["thoth"]
CMD ["--help"]
