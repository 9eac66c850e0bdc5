#!/bin/bash
# Shows that a build for production has none of the faults that tests inject: builds the two programs that have them as
# they are measured (the profile of a release, without link-time optimisation) and looks for their strings, which the
# development build must have.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=(gpuaas-node-agent gpuaas-allocation)
cargo build --quiet --workspace "${programs[@]/#/--bin=}"
cargo build --quiet --workspace "${programs[@]/#/--bin=}" --profile measure

# has FILE STRING
has() { grep --quiet --text --fixed-strings -e "$2" "$1"; }

failed=0
# look PROGRAM STRING
look() {
    if ! has "target/debug/$1" "$2"; then
        echo "test-release: the development build of $1 has no $2: this test looks for the wrong string" >&2
        failed=1
    fi
    if has "target/measure/$1" "$2"; then
        echo "test-release: $1 can be made to fail by $2 in production" >&2
        failed=1
    fi
}
look gpuaas-node-agent kill-at
look gpuaas-node-agent killed-at
look gpuaas-node-agent hold-at
look gpuaas-node-agent held-at
look gpuaas-node-agent GPUAAS_FAULT_WIPE
look gpuaas-allocation GPUAAS_KILL_FILE
[ $failed = 0 ]
echo "test-release: ${programs[*]} have no kill point in production"
