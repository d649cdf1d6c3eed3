#!/bin/sh
# Nights of the loop on real releases of NumPy: `make night` runs it, and so can you, line by line.
set -eu
say() { printf '\n\033[1m%s  %s\033[0m\n' "$(date +%H:%M:%S)" "$*"; }
run() { printf '\033[2m$ %s\033[0m\n' "$*"; "$@"; }

samples="$(cd "$(dirname "$0")" && pwd)"
folder="${NIGHT_FOLDER:-$(mktemp -d)}"
receiver=
export THOTH_HOME="$folder/home" PACKAGE_INDEXES="pypi=file://$folder/index"
export LOOP_BLOCKS="${LOOP_BLOCKS:-12}" LOOP_WAIT_S="${LOOP_WAIT_S:-300}"
export LOOP_INDICATORS="${LOOP_INDICATORS:-conv2d:min_time=0.2,threads=1}"
mkdir -p "$folder/index" "$folder/wheels" "$folder/app"

# However this ends: the receiver and the stores stop, and a temporary folder is removed.
clean_up() {
  if [ -n "$receiver" ]; then kill "$receiver" 2>/dev/null || true; fi
  thoth down || true
  if [ -z "${NIGHT_FOLDER:-}" ]; then rm -rf "$folder"; fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say "A receiver of signed webhooks, on a free port of this machine"
(umask 077; python3 -c 'import base64, os; print("whsec_" + base64.b64encode(os.urandom(32)).decode())' > "$folder/secret")
python3 -u "$samples/receiver.py" "$folder/secret" "$folder/port" &
receiver=$!
while [ ! -s "$folder/port" ]; do
  kill -0 "$receiver" || exit 1
  sleep 0.1
done
export WEBHOOKS="night=http://127.0.0.1:$(cat "$folder/port")/" WEBHOOK_SECRETS="night=$folder/secret"

say "Real wheels, in a folder that serves as the index"
for version in 2.0.2 2.2.6 2.3.5; do
  python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$folder/wheels" "numpy==$version"
done
cp "$folder"/wheels/numpy-2.0.2-* "$folder/index"

say "Samples in; a project that runs on NumPy 2.0.2 is watched"
run thoth ingest inspections "$samples/inspections.tar.gz"
printf 'numpy\n' > "$folder/app/requirements.in"
printf 'numpy==2.0.2\n' > "$folder/app/requirements.txt"
run thoth watch add "$folder/app" --type performance

say "The first night: nothing is new"
run thoth loop run
run thoth loop status

say "Two newer releases appear on the index"
cp "$folder"/wheels/numpy-2.[23].* "$folder/index"

say "Further nights notice, measure, advise again, and send one notice of each settled event"
run thoth loop run --until-idle
run thoth loop status
run thoth changes
run thoth notices list
run thoth advise "$folder/app" --type performance --offline
say "Done"
