#!/bin/bash
# Runs one step of the test, or anything that the steps use.
#
# usage: step.sh FUNCTION [ARGUMENT...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/virtual-host/place.sh
. "$here/place.sh"
# not kept open by what a step leaves running
exec 9>&-

fail() { echo "step: $*" >&2; exit 1; }
# on COMMAND...: on the host
on() { "$here/ssh.sh" "$@"; }
# shown: prints what it is given into the step's log too, also when the command before it fails
shown() { tee >(cat >&2); }
# same WHAT EXPECTED ACTUAL
same() { [ "$2" = "$3" ] || { diff <(echo "$2") <(echo "$3") || true; fail "$1"; }; }
# has WHAT TEXT IN: IN contains the text
has() { [[ $3 == *"$2"* ]] || { echo "$3"; fail "$1: there is no \"$2\""; }; }
# lacks WHAT TEXT IN
lacks() { [[ $3 != *"$2"* ]] || { echo "$3"; fail "$1: there is \"$2\""; }; }
# until_true SECONDS WHAT COMMAND...
until_true() {
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || { "$@" || true; fail "$what"; }
        sleep 1
    done
}

for file in "$here"/steps/*.sh; do
    # shellcheck source=/dev/null
    . "$file"
done
"$@"
