# shellcheck shell=bash
# shellcheck disable=SC2016,SC2154  # the host expands them; step.sh sets them
# Devices of approved slots, bound to VFIO.

# disk NUMBER: the name that the kernel gives a disk now
disk() { on basename "\$(readlink /dev/disk/by-id/nvme-eui.002538000000000$1)"; }

all_bound() {
    for address in "${gpus[@]}" "${functions[@]}"; do same "the driver of $address" vfio-pci "$(driver "$address")"; done
    # given to a VM as a block device, so the host keeps the controllers
    same "drivers of the disks" "nvme nvme nvme" "$(on 'for one in /sys/class/nvme/nvme*; do
        basename "$(readlink -f "$one/device/driver")"; done' | xargs)"
}

devices_bound() {
    on systemctl restart gpuaas-slice-vfio-devices.service
    on journalctl --no-pager --unit gpuaas-slice-vfio-devices.service --lines 20
    all_bound
    for address in "${gpus[@]}" "${functions[@]}"; do
        same "kept for the next start (D-57)" vfio-pci "$(on cat "/etc/driverctl.d/pci-$address")"
    done
    has "driverctl reads what the agent wrote" "${gpus[0]} vfio-pci" "$(on driverctl list-overrides)"
    nothing_planned "the second run" "$(on gpuaas-node-agent bind-devices)"
    for index in 0 1; do until_true 180 "slot $index is not offered" offered $index; done
}

# offered INDEX: launches can go to the slot, says the API: it is free, wiped and healthy, its devices are those that were
# approved, and its node takes launches
offered() {
    slots_json | jq --exit-status ".slots[] | select(.slot_index == $1) | .status == \"available\" and .health_state == \"healthy\" \
        and .clean_generation == .generation and (.drift // [] | length) == 0" \
        && node_json | jq --exit-status '.node.status.schedulable == true'
}

# drifted INDEX KIND: the slot differs from what was approved in this way, and is not offered for it
drifted() {
    slots_json | jq --exit-status ".slots[] | select(.slot_index == $1) | (.drift // [] | any(.kind == \"$2\")) \
        and .health_state != \"healthy\""
}

# binding_is STATUS: what the host's evidence says of it
binding_is() {
    node_json | jq --exit-status ".node.status.evidence[] | select(.check == \"vfio_binding\") | select(.status == \"$1\")"
}

# Somebody gives a GPU to another driver: the host is not what was approved, until the unit has bound it again.
drift_seen() {
    local gpu=${gpus[1]}
    on "modprobe pci-stub && cd /sys/bus/pci && echo $gpu > drivers/vfio-pci/unbind && echo pci-stub > devices/$gpu/driver_override \
        && echo $gpu > drivers_probe"
    same "the driver of $gpu" pci-stub "$(driver "$gpu")"
    text=$(on gpuaas-node-agent parity-check) && fail "the parity check does not see it: $text"
    echo "$text"
    has "the parity check" "status=FAIL check=vfio_binding" "$text"
    until_true 120 "the slot of the GPU is still offered" eval "binding_is fail && drifted 1 driver_rebound"
    until_true 60 "the slot beside it is not offered" offered 0
    on systemctl restart gpuaas-slice-vfio-devices.service
    all_bound
    has "the parity check" "failures=0" "$(on gpuaas-node-agent parity-check)"
    until_true 180 "the slot of the GPU is not offered again" eval "binding_is pass && offered 1"
}

# The kernel gives the disks other names; what is bound, and to which slot a disk belongs, stays.
renamed() {
    local before
    before="$(disk 1) $(disk 2) $(disk 3)"
    restart "3 2 1"
    until_true 120 "the host is not up" on 'systemctl is-system-running --wait | grep -E "running|degraded"'
    same "failed units" "" "$(on systemctl --failed --no-legend --plain)"
    on dmesg | grep -i 'nvme.*pci function'
    same "names" "nvme2n1 nvme1n1 nvme0n1" "$(disk 1) $(disk 2) $(disk 3)"
    lacks "names" "$before" "$(disk 1) $(disk 2) $(disk 3)"
    same "functions, made by the unit at the start" 2 "$(on cat "/sys/bus/pci/devices/$card/sriov_numvfs")"
    all_bound
    same "the disk of nobody's slot" precious "$(on cat /scratch/file)"
    until_true 180 "the agent does not report" eval \
        'node_json | jq -e ".node.status.schedulable == true and (.node.status.state == \"enrolled\")"'
    has "the parity check" "failures=0" "$(on gpuaas-node-agent parity-check)"
    same "drift of the slots" "[] []" "$(slots_json | jq --compact-output '.slots[].drift' | xargs)"
}
