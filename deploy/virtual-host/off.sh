#!/bin/bash
# Cuts the power of the virtual slice host. With --wait: waits until it has ended by itself. With --is-on: says whether it
# runs, by the status. What it has switched off is noted in run/off, so that it is told from a machine that ended by itself.
#
# usage: off.sh [--wait SECONDS | --is-on]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/virtual-host/place.sh
. "$here/place.sh"
pid=$(cat "$VIRTUAL_HOST/run/pid" 2> /dev/null || true)

# the process of the file, and not another one with its number
is_on() {
    [ -n "$pid" ] && grep -qsF "$VIRTUAL_HOST/run/pid" "/proc/$pid/cmdline"
}

until_off() {
    local deadline=$((SECONDS + $1))
    while is_on; do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.2
    done
}

case ${1:-} in
--is-on) is_on ;;
--wait)
    until_off "$2" || { echo "virtual-host: it is still on after $2 s" >&2; exit 1; }
    touch "$VIRTUAL_HOST/run/off"
    ;;
*)
    if is_on; then
        touch "$VIRTUAL_HOST/run/off"
        kill -KILL "$pid"
        until_off 10
    fi
    ;;
esac
