#!/bin/bash
# Fails where a program built for production has one of the faults that tests inject, by its strings.
#
# usage: without-faults.sh PROGRAM...
set -euo pipefail

# faults PROGRAM: the strings of those that its development build has
faults() {
    case $(basename "$1") in
    gpuaas-node-agent) echo kill-at killed-at hold-at held-at GPUAAS_FAULT_WIPE ;;
    gpuaas-allocation) echo GPUAAS_KILL_FILE ;;
    *) return 1 ;;
    esac
}

failed=0
for program in "$@"; do
    list=$(faults "$program") || { echo "without-faults: $program is no program with faults" >&2; exit 2; }
    for fault in $list; do
        status=0
        grep --quiet --text --fixed-strings -e "$fault" "$program" || status=$?
        case $status in
        0) echo "without-faults: $program can be made to fail by $fault" >&2; failed=1 ;;
        1) ;;
        *) echo "without-faults: $program cannot be read" >&2; exit 2 ;;
        esac
    done
done
exit $failed
