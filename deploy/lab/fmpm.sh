#!/bin/sh
# Plays NVIDIA's fmpm and the Fabric Manager behind it, for tests: an HGX H200 in the shared NVSwitch mode, as the user
# guide of Fabric Manager documents it. The Fabric Manager is the folder that --unix-domain-socket names:
#   active   numbers of the active partitions    sick    module ids of GPUs that are sick
#   state    starting | waiting | running | down since   when it began to wait, in seconds
#   now      the time in seconds, where a test sets it   calls   what it was asked to change, a line each
#   omits    there: partitions of sick GPUs are left out, as before the H100; else they are offered and cannot be activated
#   lies    there: it answers with success and deactivates nothing     swaps   there: partitions 3 and 4 have changed numbers
#   --simulate restart   ends it and starts it with --restart: it refuses everything until it is told what is active
#   --simulate start     starts it anew: nothing is active
set -eu

socket="" verb="" argument=""
while [ $# -gt 0 ]; do
    case $1 in
    --unix-domain-socket) socket=$2; shift ;;
    -a | -d | --set-activated-list | --simulate) verb=$1 argument=$2; shift ;;
    -l | --list-unsupported-partitions | --get-nvlink-failed-devices) verb=$1 ;;
    *) echo "Invalid argument." >&2; exit 255 ;;
    esac
    shift
done
[ -d "$socket" ] || { echo "Failed to connect to Fabric Manager instance."; exit 247; }
cd "$socket"
exec 9>lock
flock 9
touch active sick

now() { if [ -f now ]; then cat now; else date +%s; fi; }
state() { if [ -f state ]; then cat state; else echo running; fi; }

# number and module ids of every partition
partitions() {
    if [ -e swaps ]; then table | sed -e 's/^3 /x /' -e 's/^4 /3 /' -e 's/^x /4 /'; else table; fi
}

table() {
    cat <<END
0 1 2 3 4 5 6 7 8
1 1 2 3 4
2 5 6 7 8
3 1 3
4 2 4
5 5 7
6 6 8
7 1
8 2
9 3
10 4
11 5
12 6
13 7
14 8
END
}

has() { # has FILE NUMBER
    grep -qx "$2" "$1"
}

is_sick() { # is_sick MODULE...
    for module in "$@"; do if has sick "$module"; then return 0; fi; done
    return 1
}

offered() {
    partitions | while read -r id modules; do
        # shellcheck disable=SC2086
        if [ -e omits ] && is_sick $modules; then continue; fi
        echo "$id $modules"
    done
}

modules_of() { # modules_of ID
    offered | while read -r id modules; do
        if [ "$id" = "$1" ]; then echo "$modules"; fi
    done
}

fail() { # fail WHAT NUMBER
    echo "Failed to $1. fmReturn: -$2"
    exit $((256 - $2))
}

list() {
    printf '{\n   "maxNumPartitions" : 64,\n   "numPartitions" : %s,\n   "partitionInfo" : [' "$(offered | wc -l)"
    offered | {
        comma=""
        while read -r id modules; do
            active=0
            if has active "$id"; then active=1; fi
            links=18
            case $modules in *" "*) ;; *) links=0 ;; esac
            count=0 gpus=""
            for module in $modules; do
                count=$((count + 1))
                gpus="$gpus${gpus:+,}
            { \"maxNumNvLinks\" : 18, \"numNvLinksAvailable\" : $links, \"nvlinkLineRateMBps\" : 26562, \"pciBusId\" : \"\", \"physicalId\" : $module, \"uuid\" : \"\" }"
            done
            printf '%s\n      { "gpuInfo" : [%s ],\n        "isActive" : %s, "numGpus" : %s, "partitionId" : %s }' \
                "$comma" "$gpus" "$active" "$count" "$id"
            comma=","
        done
    }
    printf '\n   ],\n   "version" : 33558288\n}\n'
}

activate() { # activate ID
    modules=$(modules_of "$1")
    [ -n "$modules" ] || fail "activate partition" 1
    while read -r id; do
        for module in $(modules_of "$id"); do
            case " $modules " in *" $module "*) fail "activate partition" 7 ;; esac
        done
    done <active
    # shellcheck disable=SC2086
    if is_sick $modules; then fail "activate partition" 2; fi
    echo "$1" >>active
}

deactivate() { # deactivate ID
    [ -n "$(modules_of "$1")" ] || fail "deactivate partition" 1
    has active "$1" || fail "deactivate partition" 4
    if [ -e lies ]; then return 0; fi
    grep -vx "$1" active >rest || true
    mv rest active
}

case $verb in
--simulate)
    case $argument in
    restart) echo waiting >state; now >since; : >active ;;
    start) echo running >state; : >active ;;
    esac
    exit 0
    ;;
esac
# nobody told it in time what is active
if [ "$(state)" = waiting ] && [ $(($(now) - $(cat since))) -gt 60 ]; then echo down >state; fi
if [ "$(state)" = down ]; then
    echo "Failed to connect to Fabric Manager instance."
    exit 247
fi
case $verb in -a | -d | --set-activated-list) echo "$verb $argument" >>calls ;; esac
if [ "$verb" = --set-activated-list ]; then
    [ "$(state)" = waiting ] || fail "set activated partitions" 3
    echo "$argument" | tr ',' '\n' | grep . >active || true
    echo running >state
    exit 0
fi
case $verb in
-l) [ "$(state)" = running ] || fail "get partition list" 8; list ;;
-a) [ "$(state)" = running ] || fail "activate partition" 8; activate "$argument" ;;
-d) [ "$(state)" = running ] || fail "deactivate partition" 8; deactivate "$argument" ;;
# both are empty on an H100 and later
--list-unsupported-partitions) printf '{\n   "numPartitions" : 0,\n   "partitionInfo" : [],\n   "version" : 16777988\n}\n' ;;
--get-nvlink-failed-devices) printf '{\n   "gpuInfo" : [],\n   "numGpus" : 0,\n   "numSwitches" : 0,\n   "switchInfo" : [],\n   "version" : 16783368\n}\n' ;;
esac
