#!/bin/sh
# Measures a host or a VM by SSH and writes one JSON file, by the same commands for both, so that bare metal and a slice
# compare. What is not installed there is recorded as missing. Writes nothing to any disk of the target. I-24..I-35
#
# usage: scripts/ops/gpuaas_benchmark_capture.sh --host HOST --user USER [--ssh-key FILE] --label LABEL [--output FILE]
#            [--fio-target DEVICE] [--rdma-peer HOST [--rdma-device NAME]]
# --label       names the measurement, as baremetal-NODE or slice-vm-NODE-SLOT
# --output      the file; dist/benchmarks/LABEL.json without it
# --fio-target  read this block device, of which nobody writes meanwhile; it is opened for reading alone
# --rdma-peer   an ib_write_bw server runs there
set -eu
host='' user='' key='' label='' output='' target='' peer='' device=''
usage() {
    echo "gpuaas_benchmark_capture: $1" >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
        --host | --user | --ssh-key | --label | --output | --fio-target | --rdma-peer | --rdma-device) ;;
        *) usage "unknown argument $1" ;;
    esac
    [ -n "${2:-}" ] || usage "$1 needs a value"
    case $1 in
        --host) host=$2 ;;
        --user) user=$2 ;;
        --ssh-key) key=$2 ;;
        --label) label=$2 ;;
        --output) output=$2 ;;
        --fio-target) target=$2 ;;
        --rdma-peer) peer=$2 ;;
        --rdma-device) device=$2 ;;
    esac
    shift 2
done
if [ -z "$host" ] || [ -z "$user" ]; then usage "--host and --user are needed"; fi
case $host$user in -* | *[!A-Za-z0-9_.:-]*) usage "--host and --user are names or addresses" ;; esac
case $label in '' | *[!a-z0-9-]*) usage "--label is lower-case letters, digits and '-'" ;; esac
case $target in '' | /dev/[a-z]*) ;; *) usage "--fio-target is a block device below /dev" ;; esac
case $target$peer$device in *[!A-Za-z0-9_.:/-]*) usage "--fio-target, --rdma-peer and --rdma-device are plain names" ;; esac
if [ -n "$device" ] && [ -z "$peer" ]; then usage "--rdma-device needs --rdma-peer"; fi
output=${output:-dist/benchmarks/$label.json}

# What runs there: a line "==NAME STATUS" before the output of each command.
probes() {
    cat << 'EOF'
probe() {
    name=$1
    shift
    if ! command -v "$1" > /dev/null; then printf '==%s missing\n' "$name"; return; fi
    status=0
    said=$("$@" 2>&1) || status=$?
    printf '==%s %s\n%s\n' "$name" "$status" "$said"
}
probe kernel uname -a
probe cmdline cat /proc/cmdline
probe cpus lscpu
probe memory cat /proc/meminfo
probe numa numactl --hardware
probe network_tuning sysctl net.core.rmem_max net.core.wmem_max net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.core.netdev_max_backlog
probe gpus nvidia-smi --query-gpu=index,name,driver_version,memory.total,pcie.link.gen.current,pcie.link.width.current --format=csv
probe gpu_topology nvidia-smi topo -m
probe gpu_memory_bandwidth nvbandwidth -t device_local_copy
probe fabric ibv_devinfo -l
EOF
    if [ -n "$target" ]; then
        echo "probe fio fio --name=read --readonly --rw=randread --direct=1 --bs=128k --iodepth=32 --ioengine=libaio" \
            "--runtime=20 --time_based --output-format=json --filename=$target"
    fi
    if [ -n "$peer" ]; then
        echo "probe ib_write_bw ib_write_bw --report_gbits ${device:+--ib-dev=$device} $peer"
    fi
}

mkdir -p "$(dirname "$output")"
new=$(mktemp "$output.XXXXXX")
trap 'rm -f "$new" "$new.said"' EXIT
probes | ssh -o BatchMode=yes ${key:+-i "$key"} -- "$user@$host" sh -s > "$new.said"
awk -v label="$label" -v host="$host" -v at="$(date -u +%Y-%m-%dT%H:%M:%SZ)" '
    function text(s) {
        gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s); gsub(/\t/, "\\t", s); gsub(/[[:cntrl:]]/, " ", s)
        return "\"" s "\""
    }
    BEGIN { printf "{\"schema\": 1, \"label\": %s, \"host\": %s, \"captured_at\": %s, \"probes\": {", text(label), text(host), text(at) }
    /^==[a-z_]+ (missing|[0-9]+)$/ {
        printf "%s\n%s: {\"status\": %s, \"output\": [", (n++ ? "]}," : ""), text(substr($1, 3)), text($2)
        lines = 0
        next
    }
    n { printf "%s%s", (lines++ ? ", " : ""), text($0) }
    END { print (n ? "]}" : "") "\n}}" }
' "$new.said" > "$new"
grep -q '"kernel"' "$new" || { echo "gpuaas_benchmark_capture: $host said nothing" >&2; exit 1; }
chmod 0644 "$new"
mv "$new" "$output"
echo "benchmark=$output"
