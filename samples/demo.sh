#!/bin/sh
# The main job on the bundled samples: `make demo` runs it, and so can you, line by line.
set -eu
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '\033[2m$ %s\033[0m\n' "$*"; "$@"; }

THOTH_HOME="${THOTH_HOME:-$(pwd)/.thoth/demo}"
export THOTH_HOME
samples="$(dirname "$0")/inspections.tar.gz"

say "1. Inspections in: read, checked, stored once, projected into the graph"
run thoth ingest inspections "$samples"

say "2. Knowledge out: which stack ran fastest, by how much, how surely?"
run thoth stacks

say "3. The same knowledge in Cypher"
echo "What does a stack that crashed have, that no measured stack has?"
run thoth cypher "MATCH (:Observation {outcome: 'crashed'})<-[:OBSERVED]-(i:Inspection)-[:INSPECTED]->(:Stack)-[:INCLUDES]->(v:PackageVersion)
  WHERE v.name IN ['numpy', 'tensorflow-cpu', 'torch'] AND NOT EXISTS { MATCH (:Observation {outcome: 'measured'})<-[:OBSERVED]-(:Inspection)-[:INSPECTED]->(:Stack)-[:INCLUDES]->(v) }
  RETURN v.name AS package, v.version AS version, count(DISTINCT i) AS crashed_inspections ORDER BY package, version"
echo
echo "Which stacks could not be built, and why?"
run thoth cypher "MATCH (i:Inspection)-[:OBSERVED]->(o:Observation {outcome: 'build_failed'})
  RETURN i.name AS inspection, o.failure_reason AS reason"
echo
echo "What was measured, and on what?"
run thoth cypher "MATCH (h:Hardware)<-[:RAN_ON]-(i:Inspection)-[:OBSERVED]->(o:Observation {outcome: 'measured'})-[:OF]->(p:PerformanceIndicator)
  RETURN p.name AS indicator, p.component AS library, count(DISTINCT i) AS inspections, count(o) AS observations, h.label AS hardware ORDER BY indicator, library"

say "4. Releases in: what could be installed, and what it requires"
run thoth packages import "$(dirname "$0")/packages.jsonl.gz" --as-of 2026-11-21
run thoth packages closure flask numpy --python 3.12 --platform linux_x86_64

say "5. Advice: what is likely faster, and otherwise the newest"
echo "The sample project runs on NumPy 2.0.2. What should it run on, on the machine of the samples?"
where="--python 3.11 --platform manylinux_2_28_x86_64 --hardware fa9f8e70"
# shellcheck disable=SC2086 # the options are words of their own
run thoth advise "$(dirname "$0")/project" -v $where
echo "Why not NumPy 2.3.5?"
# shellcheck disable=SC2086
run thoth why-not "numpy==2.3.5" "$(dirname "$0")/project" $where
echo "What does the advice rest on?"
run thoth cypher "MATCH (:Advice)-[:CLAIMS]->(c:Claim)-[d:DIFFERS_IN]->(p:Package)
  RETURN DISTINCT p.name AS package, d.version AS version, d.baseline_version AS next_to, c.indicator AS indicator, c.verdict AS verdict,
         c.effect_pct AS effect_pct, c.jobs AS jobs ORDER BY verdict, package, version, next_to"

echo
echo "Its verdicts are recorded. Which versions are settled to be faster or slower than the project's?"
run thoth cypher "MATCH (:Advice)-[:CLAIMS]->(c:Claim)-[d:DIFFERS_IN]->(p:Package) WHERE c.package = p.name AND c.verdict IN ['faster', 'slower']
  RETURN p.name AS package, d.version AS version, c.verdict AS verdict, d.baseline_version AS than, c.indicator AS indicator, c.interval_low_pct AS from_pct, c.interval_high_pct AS to_pct, c.jobs AS jobs ORDER BY d.version_key"
echo
echo "Which version of NumPy was the first to speed convolutions up, and which the first to slow them down? No row: none is settled to."
first() {
  run thoth cypher "MATCH (:Advice)-[:CLAIMS]->(c:Claim {package: 'numpy', indicator: 'PiConv2D', verdict: '$1'})-[d:DIFFERS_IN]->(:Package) WHERE d.version_key > d.baseline_version_key
    RETURN d.version AS first_$1, d.baseline_version AS than, c.effect_pct AS effect_pct ORDER BY d.version_key LIMIT 1"
}
first faster
first slower

say "6. Measure this machine"
run thoth pi run matmul

say "Where to go next"
activate=""
[ "$(command -v thoth)" != "$(pwd)/.venv/bin/thoth" ] || activate=". .venv/bin/activate; "
cat <<TEXT
  The demo's stores go on running, apart from your own data. To work with them:
    ${activate}export THOTH_HOME=$THOTH_HOME
  thoth pi pin, thoth inspect  measure stacks of your own: docs/guides/measure.md
  thoth packages add flask     read releases from the index: docs/guides/packages.md
  thoth stacks --help          other indicators, another baseline, JSON
  thoth cypher --help          your own questions; docs/cookbook.md has some
  thoth ingest inspections …   what others measured: files, folders, archives, s3://
  thoth status                 what runs where
  thoth down                   stop the stores
TEXT
