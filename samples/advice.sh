#!/bin/sh
# One question on the bundled samples, about what a project should run on; line by line, if you like.
set -eu
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '\033[2m$ %s\033[0m\n' "$*"; "$@"; }

THOTH_HOME="${THOTH_HOME:-$(pwd)/.thoth/demo}"
export THOTH_HOME
samples="$(dirname "$0")"

say "Reading what one machine measured (22 inspections) and 80 releases into $THOTH_HOME, in about a minute …"
thoth ingest inspections "$samples/inspections.tar.gz" >/dev/null
thoth packages import "$samples/packages.jsonl.gz" --as-of 2026-11-21 >/dev/null

say "A project runs on NumPy 2.0.2. What should it run on, on that machine?"
run thoth advise "$samples/project" --python 3.11 --platform manylinux_2_28_x86_64 --hardware fa9f8e70 --offline

say "And for your own project:"
activate=""
[ "$(command -v thoth)" != "$(pwd)/.venv/bin/thoth" ] || activate=". .venv/bin/activate; "
cat <<TEXT
  ${activate}thoth advise FOLDER      # docs/guides/first-project.md
  THOTH_HOME=$THOTH_HOME thoth down    # stops the stores that hold the samples
TEXT
