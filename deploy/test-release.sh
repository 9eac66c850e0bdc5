#!/bin/bash
# Shows that a build for production has none of the faults that tests inject: builds the two programs that have them as
# they are measured (the profile of a release, without link-time optimisation) and looks for their strings, which the
# development build must have. The agent's package looks for them in the very program that it ships.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=(gpuaas-node-agent gpuaas-allocation)
cargo build --quiet --workspace "${programs[@]/#/--bin=}"
cargo build --quiet --workspace "${programs[@]/#/--bin=}" --profile measure
for program in "${programs[@]}"; do
    found=$(deploy/without-faults.sh "target/debug/$program" 2>&1 | grep -c "can be made to fail by") || true
    expected=$([ "$program" = gpuaas-node-agent ] && echo 5 || echo 1)
    if [ "$found" != "$expected" ]; then
        echo "test-release: the development build of $program has $found of $expected faults: the search is wrong" >&2
        exit 1
    fi
done
deploy/without-faults.sh "${programs[@]/#/target/measure/}"
echo "test-release: ${programs[*]} have no kill point in production"
