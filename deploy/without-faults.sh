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
    *) echo "without-faults: $1 is no program with faults" >&2 && exit 2 ;;
    esac
}

failed=0
for program in "$@"; do
    for fault in $(faults "$program"); do
        if grep --quiet --text --fixed-strings -e "$fault" "$program"; then
            echo "without-faults: $program can be made to fail by $fault" >&2
            failed=1
        fi
    done
done
exit $failed
