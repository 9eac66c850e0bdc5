#!/bin/bash
# Runs a command as if it were alone on a host: own mount and PID namespaces, inside a network namespace that was made
# before, with the folders of libvirt and Open vSwitch of its own. Everything in it ends with it.
# Loop devices, hugepages and cgroups stay those of the machine.
#
# usage: sandbox.sh NETNS STATE_DIR COMMAND...
# STATE_DIR keeps what a host keeps over a reboot: /etc/libvirt, /var/lib/libvirt and its images.
set -euo pipefail
if [ -z "${GPUAAS_SANDBOX:-}" ]; then
    netns=${1:?usage: sandbox.sh NETNS STATE_DIR COMMAND...}; shift
    export GPUAAS_SANDBOX=1
    exec nsenter --net="/run/netns/$netns" \
        unshare --mount --pid --fork --kill-child --mount-proc --propagation private "$0" "$@"
fi
state=$1; shift

# sysfs shows the interfaces of the namespace that mounted it; the cgroup tree below it is kept
cgroups=$state/cgroups
mkdir -p "$cgroups"
mount --rbind /sys/fs/cgroup "$cgroups"
mount -t sysfs sysfs /sys
mount --rbind "$cgroups" /sys/fs/cgroup

if [ ! -d "$state/etc-libvirt" ]; then
    rm -rf "$state/etc-libvirt.new"
    cp -a /etc/libvirt "$state/etc-libvirt.new"
    rm -f "$state"/etc-libvirt.new/qemu/networks/autostart/*
    # no DAC or AppArmor changes: the agent alone decides who may open a slot's disk
    cat >> "$state/etc-libvirt.new/qemu.conf" << 'CONF'
user = "root"
group = "root"
dynamic_ownership = 0
security_driver = "none"
remember_owner = 0
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
CONF
    mv "$state/etc-libvirt.new" "$state/etc-libvirt"
fi
mkdir -p "$state/var-lib-libvirt/qemu/nvram" "$state/var-lib-libvirt/images"
chmod 755 "$state/var-lib-libvirt" "$state/var-lib-libvirt/qemu" "$state/var-lib-libvirt/images"

for folder in /run/libvirt /var/log/libvirt /var/cache/libvirt /run/openvswitch /etc/openvswitch /var/log/openvswitch; do
    mkdir -p "$folder"
    mount -t tmpfs tmpfs "$folder"
done
# each start is a boot of its own, as on a machine
cat /proc/sys/kernel/random/uuid > "$state/boot_id"
mount --bind "$state/boot_id" /proc/sys/kernel/random/boot_id
mkdir -p /etc/libvirt /var/lib/libvirt
mount --bind "$state/etc-libvirt" /etc/libvirt
mount --bind "$state/var-lib-libvirt" /var/lib/libvirt
# images lie where the catalog says that every host has them
mkdir -p "$state/image-cache" /var/lib/gpuaas/slice-images
mount --bind "$state/image-cache" /var/lib/gpuaas/slice-images
ip link set lo up
exec "$@"
