#!/bin/bash
# Builds the virtual slice host, installs the agent's package on it, prepares it as an operator would, has a real control
# plane adopt it, and runs a slice on it. Prints a line for each step with its time and result. A step that fails because
# the machine below the host did (QEMU has ended by itself, the host's kernel panicked, or a processor of it hangs in the
# emulation of a nested guest) says so, and everything is begun anew,
# once. A host that hangs is a failure of its step: what the step does may be why. Run as root; `make test-virtual-host` has built the programs.
#
# usage: test.sh [STEP]
# STEP                  the last step to run; the host stays on then
# VIRTUAL_HOST_FROM     the first step to run, on the host that an earlier run left on
# VIRTUAL_HOST_KEEP=1   leave the host on at the end
# PROFILE               how the package's program is built, "release" unless given
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/virtual-host/place.sh
. "$here/place.sh"
last=${1:-}
export VIRTUAL_HOST_LOGS=$VIRTUAL_HOST/logs
infrastructure=75

# function, time limit in seconds, what it shows
steps() {
    cat << 'STEPS'
build_host          1200 the virtual host is built
build_package       2400 the agent's package is built
build_stack          900 a control plane runs
first_start          300 the host starts, without an IOMMU in its kernel's arguments
package_installed    300 d_92_d_94 the package installs under systemd, and changes nothing of the host
bootstrap_planned    300 i_64_i_79 the bootstrap's dry run changes nothing
bootstrap_done       600 i_64_i_67_i_68_i_84_i_85_i_88 the bootstrap makes it a slice host
bootstrap_again      300 i_64_i_83 the bootstrap's second run changes nothing
restarted            300 i_66_i_81_i_82_i_86 the arguments of the boot loader's menu count from the next start on
baseline_kept        300 i_89_i_91_i_93_i_95_i_100_i_101 units made the guests' network at the start, and a second run changes nothing
runtime_prepared     300 i_104_i_105_i_106_i_109 the runtime is prepared, and a second run changes nothing
storage_planned      300 i_113_i_114_i_121_i_123 the storage transition refuses disks by their cause, and plans the others
storage_taken        300 i_110_i_115_i_116_i_117_i_118_i_119_i_120_i_122 approved disks are raw, all others stay
functions_made       300 j_25_j_26 the unit of the fabric makes the virtual functions that its settings name
enrolled             300 a_06_a_07 the agent enrols with a single-use token, and its unit comes with the next start
host_checked         300 i_218_i_219 the host's report has no blockers, and the parity check no failure
discovered           300 a_58_a_60_a_66 a discovery finds each device by its identity, and changes nothing
approved             900 a_132 approval wipes both disks and reads them back
devices_bound        400 d_57_d_58 the unit binds approved GPUs and functions to VFIO for good, and the API offers their slots
drift_seen           400 d_56 a GPU that has another driver is seen, its slot is not offered until it is bound again
renamed              600 a_70_i_123 names of disks change with a restart; bindings, functions, network and slots stay
catalogued           300 the host's slots are offered
launched            1200 d_47_d_50_d_53 a slice starts with a GPU, a function, its disk and hugepages
logged_in            300 its user logs in, and the guest has the devices
agent_rolled_out     900 a_10_d_93_d_94 a rollout brings the agent to another version and back, and the slice beside it runs on
bandwidth_held       300 d_60_j_22 the kernel's switch holds the slice's port at the site's limit, in both directions
stopped_and_started 1800 p9 a stopped slice has its own disk after a restart of the host that renames the disks
released            1200 p2_p5 nothing is left of a released slice, and the certificate of its wipe counts without the platform
passed_through      2400 d_47_d_48_d_80 a slice has its disk by the controller itself where the profile says so, and the host still reports the disk
passed_back         2400 p2_p9 the host has the controller again after a stop, and after a crash of hypervisor and VM, and wipes the disk
cut_in_clone        2400 p5 power lost in the copy of an image: ledger, host and hypervisor agree, and the slot is wiped
cut_in_wipe         2400 p2_p5 power lost in a wipe: it is begun anew, and the slot is allocated only when it is proven empty
STEPS
}

# shellcheck disable=SC2317  # called by name
say() { echo "virtual-host: $*" | tee -a "$VIRTUAL_HOST_LOGS/results.txt"; }

panicked() { grep -qs "Kernel panic" "$VIRTUAL_HOST/run/console.txt"; }

# Whether a processor of the host hangs in the emulation of a nested guest: no program of the host can make its kernel say that
# more than once in a while.
stalled() { [ "$(grep -cs "rcu_preempt detected stalls" "$VIRTUAL_HOST/run/console.txt")" -gt 3 ]; }

# Whether it has panicked for good: run.sh switches one on again that never had its root.
panicked_late() { panicked && grep -qs "EXT4-fs (vda)" "$VIRTUAL_HOST/run/console.txt"; }

# Why the machine below the host did not stay, if it did not.
machine_failed() {
    if panicked; then
        echo "the host's kernel panicked"
    elif stalled; then
        echo "a processor of the host did not come back from its guest: the kernel says so again and again"
    elif ! "$here/off.sh" --is-on && [ ! -f "$VIRTUAL_HOST/run/off" ]; then
        echo "QEMU has ended: $(tail -n 1 "$VIRTUAL_HOST/run/qemu.log" 2> /dev/null)"
    else
        return 1
    fi
}

# Runs all steps; status 75: the machine below the host failed.
run() {
    local name limit what begun status number=0 total why from=${VIRTUAL_HOST_FROM:-}
    total=$(steps | wc -l)
    while read -r -u 3 name limit what; do
        number=$((number + 1))
        [ "$name" != "$from" ] || from=
        [ -z "$from" ] || continue
        begun=$SECONDS
        status=0
        timeout --kill-after=10 "$limit" "$here/step.sh" "$name" > "$VIRTUAL_HOST_LOGS/$name.log" 2>&1 < /dev/null 9>&- &
        step=$!
        while kill -0 $step 2> /dev/null; do
            # a host whose kernel has panicked answers nobody: the step would wait for it until its limit
            [[ $name = build_* ]] || ! panicked_late || kill $step 2> /dev/null || true
            sleep 1
        done
        wait $step || status=$?
        if [ $status = 0 ]; then
            [ ! -f "$VIRTUAL_HOST/run/infrastructure.txt" ] || { say "$(cat "$VIRTUAL_HOST/run/infrastructure.txt")"; \
                rm "$VIRTUAL_HOST/run/infrastructure.txt"; }
            say "$(printf '%2d/%d %5d s  ok    %s: %s' $number "$total" $((SECONDS - begun)) "$name" "$what")"
        else
            [ $status != 124 ] || echo "step: it did not end within $limit s" >> "$VIRTUAL_HOST_LOGS/$name.log"
            say "$(printf '%2d/%d %5d s  FAIL  %s: %s' $number "$total" $((SECONDS - begun)) "$name" "$what")"
            tail -n 25 "$VIRTUAL_HOST_LOGS/$name.log" | sed 's/^/    /'
            if [[ $name != build_* ]] && why=$(machine_failed); then
                say "infrastructure: $why"
                return $infrastructure
            fi
            return 1
        fi
        [ "$name" != "$last" ] || { VIRTUAL_HOST_KEEP=1; return 0; }
    done 3< <(steps)
}

if [ "$(id -u)" != 0 ]; then
    echo "virtual-host: run this as root" >&2
    exit 2
fi
for name in "$last" "${VIRTUAL_HOST_FROM:-}"; do
    [ -z "$name" ] || steps | grep -q "^$name " || { echo "virtual-host: no step is called $name" >&2; exit 2; }
done
mkdir -p "$VIRTUAL_HOST"
exec 9> "$VIRTUAL_HOST/lock"
flock -n 9 || { echo "virtual-host: another test has the virtual host" >&2; exit 1; }
rm -rf "$VIRTUAL_HOST_LOGS"
mkdir -p "$VIRTUAL_HOST_LOGS"
trap '[ -z "${step:-}" ] || kill "$step" 2> /dev/null || true; [ -n "${VIRTUAL_HOST_KEEP:-}" ] || { "$here/off.sh"; "$here/step.sh" end_stack; }' EXIT
[ -n "${VIRTUAL_HOST_FROM:-}" ] || rm -f "$VIRTUAL_HOST/run/console.txt"
begun=$SECONDS
for try in first second; do
    status=0
    run || status=$?
    [ $status = $infrastructure ] || break
    say "the $try run ended by a failure of the machine below the host"
    cp "$VIRTUAL_HOST"/run/console*.txt "$VIRTUAL_HOST/run/qemu.log" "$VIRTUAL_HOST_LOGS/" 2> /dev/null || true
    "$here/off.sh"
    rm -f "$VIRTUAL_HOST/run/console.txt"
    VIRTUAL_HOST_FROM=
done
case $status in
0) say "all steps passed in $((SECONDS - begun)) s" ;;
"$infrastructure") say "the machine below the host failed twice: nothing is shown of the product" ;;
*) say "a step failed; logs are in $VIRTUAL_HOST_LOGS" ;;
esac
exit "$status"
