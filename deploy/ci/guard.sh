#!/bin/sh
# Compare locks with those of the base revision, and keep one comment for each up to date.
#
#   guard.sh [--brief] LOCK...
#
# --brief prints one line for a lock of which too little is known, and nothing without harm.
# Paths are relative to the top of the repository. Without `thoth` on the path, it is installed once,
# below this checkout, each file compared with its SHA-256. All else comes from variables:
#   GUARD_BASE      revision with the old locks (HEAD)
#   GUARD_FAIL_ON   harm, unknown or never (harm)
#   GUARD_HARDWARE, GUARD_PYTHON, GUARD_PLATFORM
#                   what the lock is for: options of `thoth guard`
#   GUARD_EXTRAS, GUARD_GROUPS
#                   what of the lock counts, names separated by spaces
#   GUARD_MEASURE   true: measure the benchmarks of the project with both locks first; or a command
#   GUARD_MINUTES   at most so long for each lock (10)
#   GUARD_SERVICE   URL of a service to ask; its token is in THOTH_TOKEN
#   GUARD_PACK      true: answer about speed only, from the pack that ships; or the path of a pack.
#                   Without both, the stores of DATABASE_URL and GRAPH_URL are used, or else
#                   embedded ones, which need nothing
#   GUARD_OFFLINE   true: read no releases, use only what is stored (false)
#   GUARD_SARIF     folder for SARIF logs
#   GUARD_HOST      github or gitlab: write comments, see comment.py
# Without -f, a group `*` would name the files of the folder.
set -euf

base=${GUARD_BASE:-HEAD}
brief=
if [ "${1:-}" = --brief ]; then brief=1; shift; fi
here=$(cd -- "$(dirname -- "$0")" && pwd)
# A variable that is not set must not look like a lock without harm.
[ "$#" -gt 0 ] || { echo "guard.sh: name at least one lock" >&2; exit 2; }
for lock in "$@"; do
    case $lock in
        '') echo "guard.sh: the path of a lock is empty" >&2; exit 2 ;;
        /* | .. | ../* | */../* | */..)
            echo "guard.sh: $lock: write a path from the top of the repository, without .." >&2
            exit 2 ;;
    esac
done
case $base in -*) echo "GUARD_BASE: $base is not a revision" >&2; exit 2 ;; esac
case ${GUARD_FAIL_ON:=harm} in
    harm | unknown | never) ;;
    *) echo "GUARD_FAIL_ON: write harm, unknown or never" >&2; exit 2 ;;
esac
case ${GUARD_OFFLINE:=false} in
    true | false) ;;
    *) echo "GUARD_OFFLINE: write true or false" >&2; exit 2 ;;
esac
if [ "${GUARD_MEASURE:=false}" != false ] && [ -n "${GUARD_SERVICE:-}${GUARD_PACK:-}" ]; then
    echo "GUARD_MEASURE: measurements need stores; leave out GUARD_SERVICE and GUARD_PACK" >&2
    exit 2
fi

install_thoth() {
    root=$(cd -- "$here/../.." && pwd)
    environment=$root/.thoth/ci
    PATH=$environment/bin:$PATH
    [ ! -x "$environment/bin/thoth" ] || return 0
    echo "installing Thoth in $environment, once" >&2
    locked=$root/locks/embedded.txt
    [ -z "${GUARD_SERVICE:-}${GUARD_PACK:-}${DATABASE_URL:-}" ] || locked=$root/locks/service.txt
    python3 -m venv "$environment"
    # Most modules are never imported here, so that compiling all of them would take longer.
    pip="python3 -m pip --quiet --disable-pip-version-check install --no-compile --no-deps"
    $pip --require-hashes --requirement "$locked"
    $pip --no-build-isolation "$root"
}

# The benchmarks run in the folder of the lock, with both locks in turns. They are code of the
# request, which must not read tokens.
measure() (
    cd -- "$(dirname -- "$1")"
    name=$(basename -- "$1")
    set -- "$base:$1" "$name" --ingest --share-machine --max-minutes "${GUARD_MINUTES:-10}"
    [ -z "${GUARD_PYTHON:-}" ] || set -- "$@" --python "$GUARD_PYTHON"
    for it in ${GUARD_EXTRAS:-}; do set -- "$@" --extra "$it"; done
    for it in ${GUARD_GROUPS:-}; do set -- "$@" --group "$it"; done
    if [ "$GUARD_MEASURE" = true ]; then
        env -u GUARD_TOKEN -u THOTH_TOKEN thoth compare --yes "$@"
    else
        env -u GUARD_TOKEN -u THOTH_TOKEN thoth compare "$@" -- "$GUARD_MEASURE"
    fi
)

command -v thoth >/dev/null || install_thoth
cd -- "$(git rev-parse --show-toplevel)"
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
trap 'exit 1' HUP INT TERM

# A shallow checkout has no base revision.
if ! git cat-file -e "$base^{commit}" 2>/dev/null; then
    git fetch --quiet --depth=1 origin "$base"
    base=FETCH_HEAD
fi

status=0
number=0
for lock in "$@"; do
    number=$((number + 1))
    comment=$work/$number/comment.md
    sarif=${GUARD_SARIF:+$GUARD_SARIF/guard-$number.sarif}
    mkdir -- "$work/$number"
    [ -z "$sarif" ] || mkdir -p -- "$GUARD_SARIF"
    missing=
    [ -e "$lock" ] || missing="the request deletes it"
    if ! git cat-file -e "$base:$lock" 2>/dev/null; then
        [ -z "$missing" ] || { echo "$lock: neither revision has this file" >&2; exit 2; }
        missing="the base revision does not have it"
    fi
    if [ -n "$missing" ]; then
        echo "$lock: $missing" >&2
        # An empty file deletes an earlier comment.
        : >"$comment"
        [ -z "$sarif" ] || python3 "$here/empty_sarif.py" "$lock" >"$sarif"
    else
        if [ "$GUARD_MEASURE" != false ] && ! git diff --quiet "$base" -- "$lock"; then
            code=0
            measure "$lock" || code=$?
            case $code in
                0 | 4 | 5) ;;
                *) echo "$lock: it was not measured" >&2
                   [ "$GUARD_FAIL_ON" = never ] || status=1 ;;
            esac
        fi
        set -- --comment "$comment"
        [ -z "${GUARD_HARDWARE:-}" ] || set -- "$@" --hardware "$GUARD_HARDWARE"
        [ -z "${GUARD_PYTHON:-}" ] || set -- "$@" --python "$GUARD_PYTHON"
        [ -z "${GUARD_PLATFORM:-}" ] || set -- "$@" --platform "$GUARD_PLATFORM"
        for name in ${GUARD_EXTRAS:-}; do set -- "$@" --extra "$name"; done
        for name in ${GUARD_GROUPS:-}; do set -- "$@" --group "$name"; done
        [ -z "${GUARD_SERVICE:-}" ] || set -- "$@" --service "$GUARD_SERVICE"
        case ${GUARD_PACK:-} in
            '') ;;
            true) set -- "$@" --pack ;;
            *) set -- "$@" "--pack=$GUARD_PACK" ;;
        esac
        [ "$GUARD_OFFLINE" = false ] || set -- "$@" --offline
        [ -z "$sarif" ] || set -- "$@" --sarif "$sarif"
        code=0
        printed=$work/$number/printed
        if [ -n "$brief" ]; then
            thoth guard "$@" -- "$base:$lock" "$lock" >"$printed" 2>&1 || code=$?
            case $code in
                0) ;;
                4) echo "$lock: not checked completely, data is missing; \`thoth guard OLD NEW\` says which" ;;
                *) cat -- "$printed" ;;
            esac
        else
            thoth guard "$@" -- "$base:$lock" "$lock" || code=$?
        fi
        case $code in
            0) ;;
            1) [ "$GUARD_FAIL_ON" = never ] || status=1 ;;
            4) [ "$GUARD_FAIL_ON" != unknown ] || [ "$status" = 1 ] || status=4 ;;
            *) exit "$code" ;;
        esac
    fi
    if [ -n "${GUARD_HOST:-}" ] && [ -e "$comment" ]; then
        # A comment that cannot be written, as in a pull request of a fork, is no harm.
        python3 "$here/comment.py" "$lock" "$comment" ||
            echo "$lock: the comment was not written" >&2
    fi
done
exit "$status"
