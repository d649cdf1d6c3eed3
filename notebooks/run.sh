#!/bin/sh
# Runs the notebooks on the bundled samples and writes them as HTML: `make notebooks` calls this.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
samples="$here/../samples"

THOTH_HOME="${THOTH_HOME:-$(pwd)/.thoth/notebooks}"
THOTH_EXPORT="$THOTH_HOME/export"
export THOTH_HOME THOTH_EXPORT

# Stop the stores at the end, unless they run already.
thoth status >/dev/null 2>&1 || trap 'thoth down' EXIT
thoth ingest inspections "$samples/inspections.tar.gz"
thoth packages import "$samples/packages.jsonl.gz" --as-of 2026-11-21
thoth advise "$samples/project" --type performance --offline \
    --python 3.11 --platform manylinux_2_28_x86_64 --hardware fa9f8e70
thoth graph sync
thoth export parquet "$THOTH_EXPORT" --replace
python -m nbconvert --execute --to html --output-dir "$THOTH_HOME/html" "$here"/*.ipynb
