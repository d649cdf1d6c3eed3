#!/bin/sh
# An upgrade, judged by measurements that come with it: `make demo` runs it, and so can you, line by line.
set -eu
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '\033[2m$ %s\033[0m\n' "$*"; "$@"; }
from_json() { python3 -c "import json, sys; it = json.load(sys.stdin); $1"; }

samples="$(dirname "$0")"
pack="$samples/../evidence"
# A version without measurements answers from its samples.
ls "$pack"/*.tar >/dev/null 2>&1 || exec sh "$samples/advice.sh"
# The class that was measured in most sessions comes first.
class=$(thoth pack report "$pack" --json | from_json 'print(it["steps"][0]["hardware_digest"][7:15])')
set -- guard "$samples/upgrade/old.txt" "$samples/upgrade/new.txt" --python 3.11 --hardware "$class" --pack

say "The measurements of releases that come with this installation:"
run thoth pack verify "$pack" | sed '/^indicator/,$d'

say "An upgrade of three libraries: is it slower on that machine? Without a store, a network or a measurement of yours:"
code=0
run thoth "$@" || code=$?
echo "exit code $code"

say "The samples behind the first settled line, of the first six jobs:"
jobs=$(thoth "$@" --json 2>/dev/null | from_json '
claim = (it["stacks"] + it["claims"])[0]
print(*("--samples " + each for each in claim["evidence"][:6]))') || true
run thoth pack show "$pack" $jobs

say "Without --hardware, it is about this machine. With your own program instead:"
echo "  thoth compare $samples/upgrade/old.txt $samples/upgrade/new.txt -- COMMAND"
