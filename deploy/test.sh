#!/bin/bash
# Runs one tier of the tests and prints how long each part took, and what the tier leaves out.
#
# usage: test.sh quick|host|chaos
set -euo pipefail
cd "$(dirname "$0")/.."
tier=${1:?usage: test.sh quick|host|chaos}
begun=$SECONDS
times="" memory=""

# Prints the times also when a part fails.
report() {
    local status=$?
    [ -z "$memory" ] || rm -rf "$memory" || true
    printf '\n%s' "$times"
    printf '%6d s  in all\n' $((SECONDS - begun))
    [ $status = 0 ] || echo "the test run failed"
}
trap report EXIT

# part NAME COMMAND...
part() {
    local name=$1 before=$SECONDS status=0
    shift
    "$@" || status=$?
    times+=$(printf '%6d s  %s' $((SECONDS - before)) "$name")$'\n'
    return $status
}

# Temporary files of the tests lie in memory where 4 GiB are free there: ext4 takes long to make a file where many were just
# removed, and the tests make and remove hundreds of thousands.
in_memory() {
    local free
    free=$(df --output=avail -k /dev/shm 2> /dev/null | tail -n 1) || free=0
    if [ "${free:-0}" -ge 4194304 ]; then
        memory=$(mktemp -d /dev/shm/gpuaas-temporary.XXXXXX)
        chmod 755 "$memory"
        local -x TMPDIR=$memory
    fi
    "$@"
}

console() { (cd clients/console && npm run --silent test -- --reporter dot); }

clients() { console && deploy/sdk.sh test; }

# The VM keeps one core busy and waits much: the clients' units run beside it, and are printed after it.
vm_and_clients() {
    local log status=0
    log=$(mktemp)
    clients > "$log" 2>&1 &
    local clients=$!
    cargo nextest run --workspace -E 'package(gpuaas-tests) & binary(it)' || status=$?
    wait $clients || status=$?
    cat "$log"
    rm "$log"
    return $status
}

# the whole system in one program: `cargo nextest` would start it once for each test
program() { cargo test --quiet --workspace --test "$1" -- "${@:2}"; }

# nextest FILTER...: one run of the tests that the filter names, and of no other
nextest() { cargo nextest run --workspace --cargo-quiet --ignore-default-filter -E "$1" "${@:2}"; }

# left SECONDS: whether so many are left of GPUAAS_TEST_SECONDS, which is no limit when it is absent
left() { [ -z "${GPUAAS_TEST_SECONDS:-}" ] || [ $((GPUAAS_TEST_SECONDS - SECONDS + begun)) -ge "$1" ]; }

late=""
# in_time SECONDS NAME COMMAND...: a part, where so many seconds are left for it
in_time() {
    if left "$1"; then
        part "${@:2}"
    else
        late+=" $2;"
    fi
}

# the program leaves out by itself what does not fit into what is left
vms() {
    if [ -n "${GPUAAS_TEST_SECONDS:-}" ]; then
        local -x GPUAAS_TEST_SECONDS=$((GPUAAS_TEST_SECONDS - SECONDS + begun))
    fi
    program host
}

on_vms() { in_time 60 "tests on real VMs" vms; }

with_other_programs() {
    in_time 60 "sign-in with canaille" nextest 'package(gpuaas-gateway) & test(with_canaille) & not test(browser::)'
    in_time 150 "the console's sign-in with oidc-provider and canaille" nextest 'package(gpuaas-gateway) & test(browser::)'
    in_time 60 "SCIM by the checks of scim2-tester" nextest 'package(gpuaas-gateway) & test(with_scim2_tester)'
    in_time 120 "the API by schemathesis" nextest 'package(gpuaas-gateway) & test(with_schemathesis)'
    in_time 60 "the transcoder beside Envoy's" nextest 'package(gpuaas-load-tests) & test(as_by_envoy)'
}

case $tier in
quick)
    part "build of the tests" cargo nextest run --workspace --cargo-quiet --no-run
    part "units, databases, services" in_memory cargo nextest run --workspace -E 'not package(gpuaas-tests) | kind(lib)'
    part "the system with one VM; beside it the units of console and SDKs" vm_and_clients
    echo "left out: every other test with a VM (make test-host); every kill with a VM, long random runs and the release" \
        "build (make test-chaos)"
    ;;
host)
    # two turns of four begin with the tests that need no VM, so that what a limit leaves out is not always the same; the
    # runner chooses by whether the turn is odd
    if [ $((${GPUAAS_TEST_TURN:-2} / 2 % 2)) = 0 ]; then
        with_other_programs
        on_vms
    else
        on_vms
        with_other_programs
    fi
    [ -z "$late" ] || echo "left out for time:$late"
    echo "left out: what make test runs; kills at every step, long random runs and the release build (make test-chaos)"
    ;;
chaos)
    part "the release build" deploy/test-release.sh
    part "the agent's package" deploy/deb/test.sh
    GPUAAS_LEDGER_EVERY_CUT=all GPUAAS_LEDGER_CALLS=${GPUAAS_LEDGER_CALLS:-20000} part "ledger: random runs and every cut" \
        nextest 'package(gpuaas-placement) & (test(random_work) | test(every_cut))' --profile chaos --no-capture
    GPUAAS_BAD_INPUTS=${GPUAAS_BAD_INPUTS:-400000} part "texts of a host that no program would write" \
        nextest 'package(gpuaas-agent) & (test(no_text_of_a_host) | test(recorded::facts))' --profile chaos --no-capture
    GPUAAS_SCHEMATHESIS_EXAMPLES=${GPUAAS_SCHEMATHESIS_EXAMPLES:-200} \
        GPUAAS_SCHEMATHESIS_PHASES=examples,coverage,fuzzing,stateful \
        GPUAAS_SCHEMATHESIS_SEED=${GPUAAS_SCHEMATHESIS_SEED:-$RANDOM} part "the API by long runs of schemathesis" \
        nextest 'package(gpuaas-gateway) & test(with_schemathesis)' --profile chaos --no-capture
    part "kills at every step" program chaos
    GPUAAS_EVERY_STEP=all part "parts of a host killed in every step" program host agent::faults_of_parts
    GPUAAS_EVERY_STEP=all part "parts of a host killed in every step of power" program host faults_of_power
    GPUAAS_EVERY_STEP=all part "parts of a host killed in every step of a launch and a release" program host faults_of_launch
    echo "left out: what make test and make test-host run"
    ;;
*)
    echo "test: no tier is called $tier" >&2
    exit 2
    ;;
esac
