#!/bin/bash
# The peer of the benchmarks of a launch: one VM by hand, with the same image, shape, disk and host as a slice, and
# nothing else: no checks, no journal, no control plane. Prints the seconds from the first command to a login, then
# removes the VM again. Runs inside the lab host.
#
# It has a switch and a DHCP server of its own: the agent's switch lets no VM through that it does not know.
#
# usage: plain-vm.sh IMAGE DISK WORK_DIR
set -euo pipefail
image=$1 disk=$2 work=$3
name=plain-benchmark mac=52:54:00:10:00:c8 ip=10.101.0.200
bridge=plainbr0
mkdir -p "$work"
[ -f "$work/key" ] || ssh-keygen -q -t ed25519 -N '' -f "$work/key"

cleanup() {
    virsh -q -c qemu:///system destroy $name > /dev/null 2>&1 || true
    virsh -q -c qemu:///system undefine --nvram $name > /dev/null 2>&1 || true
    [ ! -f "$work/dnsmasq.pid" ] || kill "$(cat "$work/dnsmasq.pid")" 2> /dev/null || true
    rm -f "$work/dnsmasq.pid" "$work/leases"
    ovs-vsctl --timeout=20 --if-exists del-br $bridge || true
    blkdiscard -f "$disk" 2> /dev/null || true
}
trap cleanup EXIT

ovs-vsctl --timeout=20 add-br $bridge -- set bridge $bridge datapath_type=netdev
ip addr add ${ip%.*}.1/24 dev $bridge
ip link set $bridge up
dnsmasq --conf-file=/dev/null --no-resolv --no-hosts --port=0 --bind-interfaces --interface=$bridge --except-interface=lo \
    --dhcp-range=${ip%.*}.0,static,255.255.255.0,1h --dhcp-host=$mac,$ip,plain --dhcp-leasefile="$work/leases" \
    --dhcp-authoritative --no-ping --user=root --pid-file="$work/dnsmasq.pid"
begun=$(date +%s%N)

qemu-img convert -f raw -O raw -n -W -m 16 -t none "$image" "$disk"
printf 'instance-id: plain-1\nlocal-hostname: plain\n' > "$work/meta-data"
printf '#cloud-config\nusers:\n  - name: plain\n    ssh_authorized_keys:\n      - %s\n' "$(cat "$work/key.pub")" \
    > "$work/user-data"
genisoimage -quiet -V cidata -J -r -o "$work/seed.iso" "$work/meta-data" "$work/user-data"
cat > "$work/domain.xml" << XML
<domain type='qemu'>
  <name>$name</name><memory unit='MiB'>256</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type>
    <loader readonly='yes' secure='no' type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.fd</loader>
    <nvram template='/usr/share/OVMF/OVMF_VARS_4M.fd'>/var/lib/libvirt/qemu/nvram/${name}_VARS.fd</nvram>
    <boot dev='hd'/></os>
  <features><acpi/><apic/></features>
  <cpu mode='custom' match='exact'><model fallback='forbid'>qemu64</model></cpu>
  <on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='block' device='disk'><driver name='qemu' type='raw' cache='none' io='native' discard='unmap'/>
      <source dev='$disk'/><target dev='vda' bus='virtio'/></disk>
    <disk type='file' device='cdrom'><driver name='qemu' type='raw'/><source file='$work/seed.iso'/>
      <target dev='sda' bus='scsi'/><readonly/></disk>
    <controller type='scsi' model='virtio-scsi'/>
    <interface type='bridge'><mac address='$mac'/><source bridge='$bridge'/><virtualport type='openvswitch'/>
      <model type='virtio'/></interface>
    <serial type='null'/><rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
    <memballoon model='none'/><controller type='usb' model='none'/>
  </devices>
</domain>
XML
virsh -q -c qemu:///system define "$work/domain.xml"
virsh -q -c qemu:///system start $name
until ssh -i "$work/key" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
    -o BatchMode=yes -o ConnectTimeout=5 plain@$ip true 2> /dev/null; do
    [ $((($(date +%s%N) - begun) / 1000000000)) -lt 120 ] || { echo "no login in 120 s" >&2; exit 1; }
    sleep 0.2
done
awk -v from="$begun" -v to="$(date +%s%N)" 'BEGIN { printf "%.2f\n", (to - from) / 1e9 }'
