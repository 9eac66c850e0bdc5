# shellcheck shell=bash
# shellcheck disable=SC2016,SC2154  # the host expands them; step.sh sets them
# The preparation of the host, as an operator runs it.

scripts=/usr/share/gpuaas-node-agent

# nothing_planned WHAT TEXT: neither a step nor a refusal
nothing_planned() {
    has "$1" " steps=0 " "$2"
    has "$1" " refused=0 " "$2"
}

bootstrap_planned() {
    local before after text
    before=$(host_state)
    text=$(on $scripts/gpuaas_slice_host_deploy_bootstrap.sh --mode slice --hugepages-1g 1 --dry-run | shown)
    after=$(host_state)
    same "a dry run changed the host" "$before" "$after"
    has "the plan" "reboot_required=1" "$text"
    lacks "the plan" "apt-get" "$text" # the disk has the packages
}

bootstrap_done() {
    local text
    text=$(on GPUAAS_SLICE_HUGEPAGES_1G=1 GPUAAS_SLICE_HOST_MODE=slice $scripts/gpuaas_slice_host_deploy_bootstrap.sh | shown)
    for key in cmdline= kvm=present iommu_groups= libvirtd=active; do has "its validation (I-88)" "$key" "$text"; done
    same "modules (I-84)" "vfio vfio_iommu_type1 vfio_pci" "$(on cat /etc/modules-load.d/gpuaas-vfio.conf | xargs)"
    same "libvirt (I-85)" active "$(on systemctl is-active libvirtd.service)"
    same "libvirt (I-85)" enabled "$(on systemctl is-enabled libvirtd.service)"
    for unit in fabric-vfs vfio-devices ovs-bridge network-baseline; do
        same "the unit $unit" enabled "$(on systemctl is-enabled gpuaas-slice-$unit.service)"
    done
    on 'ls /etc/default/grub.gpuaas-backup-*' # I-81
    has "other arguments of the kernel stay (I-83)" "console=ttyS0" "$(on grep ^GRUB_CMDLINE_LINUX= /etc/default/grub)"
    has "the boot loader's menu (I-82)" "iommu=pt" "$(on grep -m1 vmlinuz /boot/grub/grub.cfg)"
    same "failed units" "" "$(on systemctl --failed --no-legend --plain)"
}

bootstrap_again() {
    local before text
    # one that has ended by itself is started again, which is a step
    on virsh -c qemu:///system list > /dev/null
    before=$(host_state)
    text=$(on GPUAAS_SLICE_HUGEPAGES_1G=1 GPUAAS_SLICE_HOST_MODE=slice $scripts/gpuaas_slice_host_deploy_bootstrap.sh | shown)
    nothing_planned "the second run" "$text"
    has "a restart is still wanted (I-86)" "reboot_required=1" "$text"
    same "the second run changed the host" "$before" "$(host_state)"
}

# restart ORDER: ends the host as its operator does, and starts it with what its boot loader would read
restart() {
    local arguments
    arguments=$(on grep -m1 vmlinuz /boot/grub/grub.cfg | sed -E 's/.* ro +//; s/ quiet( |$)/ /')
    echo "$arguments" | tee "$VIRTUAL_HOST/run/arguments"
    on systemctl reboot || true
    "$here/off.sh" --wait 120
    VIRTUAL_HOST_ARGUMENTS=$arguments VIRTUAL_HOST_DISKS=$1 "$here/run.sh"
}

restarted() {
    restart "1 2 3"
    has "the kernel's arguments" "iommu=pt" "$(on cat /proc/cmdline)"
    same "hugepages (I-72)" 1 "$(on cat /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages)"
    on 'test "$(ls /sys/kernel/iommu_groups | wc -l)" -gt 10'
    has "a restart is wanted no more" "reboot_required=0" \
        "$(on GPUAAS_SLICE_HUGEPAGES_1G=1 GPUAAS_SLICE_HOST_MODE=slice $scripts/gpuaas_slice_host_deploy_bootstrap.sh --dry-run)"
}

baseline_kept() {
    local text
    until_true 120 "the host is not up" on 'systemctl is-system-running --wait | grep -E "running|degraded"'
    same "failed units" "" "$(on systemctl --failed --no-legend --plain)"
    for unit in ovs-bridge network-baseline; do
        same "the unit $unit" active "$(on systemctl is-active gpuaas-slice-$unit.service)"
    done
    same "dnsmasq" active "$(on systemctl is-active dnsmasq.service)"
    has "the address (I-93)" "10.100.0.1/24" "$(on ip -brief address show ovsbr0)"
    same "the rule (I-91, I-101)" "-A POSTROUTING -s 10.100.0.0/24 -j MASQUERADE" \
        "$(on iptables -t nat -S POSTROUTING | grep MASQ)"
    same "forwarding (I-100)" 1 "$(on cat /proc/sys/net/ipv4/ip_forward)"
    has "the switch's datapath is the kernel's" "system@" "$(on ovs-appctl dpif/show)"
    on 'lsmod | grep -q ^openvswitch'
    text=$(on $scripts/gpuaas_slice_host_net_baseline.sh | shown)
    nothing_planned "the second run" "$text"
}

runtime_prepared() {
    local text
    # a service that would hold GPUs, and a reservation of a VM that is gone
    on 'printf "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n" \
            > /etc/systemd/system/nvidia-persistenced.service
        systemctl daemon-reload && systemctl enable --quiet --now nvidia-persistenced.service
        chmod 0700 /var/lib/libvirt
        touch /etc/dnsmasq.d/gpuaas-gpuaas-slice-00000000000000000000000000000000.conf'
    text=$(on $scripts/gpuaas_slice_host_runtime_prepare.sh --mode slice | shown)
    same "the GPUs' service (I-104)" inactive "$(on systemctl is-active nvidia-persistenced.service || true)"
    same "the GPUs' service (I-104)" disabled "$(on systemctl is-enabled nvidia-persistenced.service || true)"
    same "libvirt's folder (I-105)" 755 "$(on stat -c %a /var/lib/libvirt)"
    same "reservations (I-106)" "" "$(on 'ls /etc/dnsmasq.d | grep gpuaas-slice || true')"
    text=$(on $scripts/gpuaas_slice_host_runtime_prepare.sh --mode slice | shown)
    nothing_planned "the second run" "$text"
}

storage_planned() {
    local before text disk cause status
    on 'mkdir -p /etc/gpuaas && cat > /etc/gpuaas/slice-storage.toml' << 'PROFILE'
approved_by = "the test of the virtual host"
devices = ["/dev/disk/by-id/nvme-eui.0025380000000001", "/dev/disk/by-id/nvme-eui.0025380000000002"]
unmount = ["/share2"]
PROFILE
    before=$(host_state)
    # what is not in the profile, and what the host runs on (I-114, I-121, I-123)
    while read -r -u 4 disk cause; do
        status=0
        text=$(on gpuaas-slice-storage-transition --mode slice --apply --devices "$disk") || status=$?
        echo "$text"
        same "the status for $disk" 1 "$status"
        has "the refusal of $disk" "action=refuse cause=$cause " "$text"
        has "the refusal of $disk" " steps=0 " "$text"
        lacks "$disk" "GPUAAS_SLICE_APPLY" "$text"
    done 4<< 'DISKS'
/dev/disk/by-id/nvme-eui.0025380000000003 not_approved
/dev/vda system_disk
DISKS
    text=$(on gpuaas-slice-storage-transition --mode slice) # I-113
    echo "$text"
    same "a plan changed the host" "$before" "$(host_state)"
    same "what is on the disk" old "$(on cat /share2/file)"
}

storage_taken() {
    local text
    text=$(on gpuaas-slice-storage-transition --mode slice --apply | shown)
    on 'for one in /var/log/gpuaas/slice-storage-transition-*; do test -s "$one"; done' # I-120
    on 'ls /etc/fstab.gpuaas-slice-storage-backup-*'                # I-115
    has "fstab (I-117)" "gpuaas-slice-storage-disabled" "$(on grep share2 /etc/fstab)"
    for number in 1 2; do
        same "disk $number is raw (I-122)" "" "$(on "lsblk -nro NAME,FSTYPE,MOUNTPOINT \
            /dev/disk/by-id/nvme-eui.002538000000000$number | awk 'NF > 1 || NR > 1'")"
    done
    same "the disk of nobody's profile" precious "$(on cat /scratch/file)"
    on 'findmnt / > /dev/null'
    text=$(on gpuaas-slice-storage-transition --mode slice --apply | shown)
    nothing_planned "the second run" "$text"
}
