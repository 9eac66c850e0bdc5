# shellcheck shell=bash
# shellcheck disable=SC2016,SC2154  # the host expands them; step.sh sets them
# NVMe disks that slices have by their controllers.

# disks_by virtio|passthrough: what the host's profile gives to VMs from now on
disks_by() {
    on "sed -i '/^nvme = /d; s/^\[agent.profile\]/&\nnvme = \"$1\"/' /etc/gpuaas/node-agent.toml"
    on systemctl restart gpuaas-node-agent.service
    # it answers, and nothing stands against its slots
    same "blockers" "0 0" "$(candidates | sed 's/.* //' | xargs)"
    for index in 0 1; do until_true 180 "slot $index is not offered" offered $index; done
}

# controller_of SERIAL: the address of the controller that the host has of a disk, "0000:03:00.0"
controller_of() { on "basename \$(readlink -f \$(dirname \$(grep -l $1 /sys/class/nvme/nvme*/serial))/device)"; }

passed_through() {
    local controller domain before
    controller=$(controller_of VIRTUAL0001)
    disks_by passthrough
    before=$(candidates)
    timeout 1100 "$gpuaas" --profile-file "$stack/profile.toml" launch --sku "$sku" --image "$guest_image" \
        --ssh-key "$user_key.pub" --name passed --wait
    same "its state" active "$(state passed)"
    echo "$controller" > "$VIRTUAL_HOST/run/controller"
    domain=$(domain)
    has "the controller of its disk" "<address domain='0x${controller:0:4}' bus='0x${controller:5:2}' slot='0x${controller:8:2}' function='0x${controller:11:1}'/>" "$domain"
    has "what it boots from" "<boot order='1'/>" "$domain"
    lacks "its disks" "<disk type='block'" "$domain"
    same "who has the controller" vfio-pci "$(driver "$controller")"
    # without the path devices of native multipath
    same "disks in the guest" nvme0n1 "$(guest passed ls /sys/block | grep -v '^loop\|^ram\|^sr\|^nvme[0-9]*c' | xargs)"
    same "the disk in the guest" VIRTUAL0001 "$(guest passed cat /sys/class/nvme/nvme0/serial | xargs)"
    # the host shows no such disk now, and its agent still knows it, also after a restart of its own
    on systemctl restart gpuaas-node-agent.service
    same "candidates" "$before" "$(candidates)"
    until_true 180 "the slot drifted" eval '[ "$(slots_json | jq --compact-output ".slots[].drift // []" | xargs)" = "[] []" ] \
        && slots_json | jq --exit-status "[.slots[] | select(.health_state == \"healthy\")] | length == 2"'
    agreed
}

passed_back() {
    local controller
    controller=$(cat "$VIRTUAL_HOST/run/controller")
    cli stop passed --wait --timeout 600
    same "who has the controller of a stopped slice" nvme "$(driver "$controller")"
    # as a hypervisor leaves it that was stopped before it gave the controller back
    on virsh -c qemu:///system nodedev-detach "pci_$(tr ':.' '__' <<< "$controller")"
    same "who has it then" vfio-pci "$(driver "$controller")"
    cli start passed --wait --timeout 1100
    same "who has it again" vfio-pci "$(driver "$controller")"
    has "the agent's log" "take it back" "$(on journalctl --no-pager --unit gpuaas-node-agent.service --grep "take.it.back")"
    guest passed cat /proc/uptime
    # the hypervisor is gone when its VM dies
    on 'systemctl stop libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket libvirtd.service 2>&1; pkill -KILL -f "[g]uest=gpuaas-slice" || true'
    on 'while pgrep -f "[g]uest=gpuaas-slice" > /dev/null; do :; done'
    same "who has the controller of a dead VM" vfio-pci "$(driver "$controller")"
    on systemctl start libvirtd.socket libvirtd.service
    released passed
    disks_by virtio
}
