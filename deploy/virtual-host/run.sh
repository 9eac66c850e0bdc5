#!/bin/bash
# Switches the virtual slice host on, and waits until it answers SSH. The machine: emulated processors with nested
# virtualisation, an Intel IOMMU, GPUs, NVMe disks with an EUI-64 each, a card with virtual functions; each of them behind
# a root port of its own, so in an IOMMU group of its own. A restart of the host is an end of this machine: switch it on
# again.
#
# usage: run.sh
# VIRTUAL_HOST_FRESH=1    begin with the disks as built, and empty ones
# VIRTUAL_HOST_ARGUMENTS  the kernel's arguments besides those of the machine
# VIRTUAL_HOST_DISKS      order of the NVMe disks on the bus, "1 2 3" when absent; the kernel names them in this order
# VIRTUAL_HOST_MEMORY     4G when absent
# VIRTUAL_HOST_LIMIT      seconds until it must answer, 240 when absent
# shellcheck disable=SC2054  # the commas are QEMU's
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/virtual-host/place.sh
. "$here/place.sh"
image=$VIRTUAL_HOST/image
run=$VIRTUAL_HOST/run
read -r -a order <<< "${VIRTUAL_HOST_DISKS:-1 2 3}"
limit=${VIRTUAL_HOST_LIMIT:-240}
mkdir -p "$run"
rm -f "$run/ssh" "$run/off"

if "$here/off.sh" --is-on; then
    echo "virtual-host: it is on already" >&2
    exit 1
fi
if [ -n "${VIRTUAL_HOST_FRESH:-}" ] || [ ! -f "$run/host.qcow2" ]; then
    rm -f "$run"/*.qcow2 "$run"/nvme*.raw "$run"/console*.txt
    qemu-img create -q -f qcow2 -b "$image/host.raw" -F raw "$run/host.qcow2"
    for number in "${order[@]}"; do truncate -s 1G "$run/nvme$number.raw"; done
fi
# of this start alone; those before it stay readable
[ ! -f "$run/console.txt" ] || mv "$run/console.txt" "$run/console-$(date +%H%M%S).txt"

# x2APIC loses interrupts under emulation, and a busy machine the first of the timer, so the kernel does not wait for it.
# The processors are AMD's, since that is the virtualisation that is emulated, and the IOMMU is Intel's, so its argument is
# the machine's.
machine=(
    -nodefaults -no-user-config -display none -no-reboot
    -machine q35,kernel-irqchip=split -accel tcg,thread=multi,tb-size=1024 -cpu max,-x2apic -smp 2
    -m "${VIRTUAL_HOST_MEMORY:-4G}" -rtc base=utc -device intel-iommu,intremap=on,aw-bits=48
    -kernel "$image/kernel" -initrd "$image/initrd"
    -append "root=/dev/vda ro console=ttyS0 mitigations=off panic=-1 no_timer_check intel_iommu=on ${VIRTUAL_HOST_ARGUMENTS:-}"
    -serial "file:$run/console.txt" -monitor "unix:$run/monitor,server,nowait"
    # unsafe is of the machine below: what the host has flushed is in that machine's memory, and stays when QEMU is killed
    -drive "if=none,id=root,file=$run/host.qcow2,cache=unsafe,discard=unmap" -device virtio-blk-pci,drive=root,addr=0x3
    -netdev "user,id=management,hostfwd=tcp:127.0.0.1:$ssh_port-:22,hostfwd=tcp:127.0.0.1:$agent_port-:7110"
    -device virtio-net-pci,netdev=management,mac=52:54:00:aa:00:01,addr=0x4 -device virtio-rng-pci,addr=0x5
)
# port NAME SLOT FUNCTION: a root port
ports=0
port() {
    ports=$((ports + 1))
    local more=
    [ "$3" != 0 ] || more=,multifunction=on
    machine+=(-device "pcie-root-port,id=$1,chassis=$ports,slot=$ports,bus=pcie.0,addr=0x$2.$3$more")
}
for number in 0 1; do
    port "gpu-port$number" 10 "$number"
    machine+=(-device "fakegpu,bus=gpu-port$number")
done
place=0
for number in "${order[@]}"; do
    port "nvme-port$number" 11 "$place"
    place=$((place + 1))
    machine+=(
        -drive "if=none,id=disk$number,file=$run/nvme$number.raw,format=raw,cache=unsafe,discard=unmap,detect-zeroes=unmap"
        -device "nvme-eui,id=nvme$number,serial=VIRTUAL000$number,bus=nvme-port$number"
        -device "nvme-ns,drive=disk$number,bus=nvme$number,nsid=1,eui64=0x002538000000000$number"
    )
done
port fabric-port 12 0
machine+=(-netdev hubport,id=fabric,hubid=1 -device igb-fabric,netdev=fabric,mac=52:54:00:bb:00:01,bus=fabric-port)

# Starts the machine; status 2: its kernel panicked before it had a root, so nothing of the host has run.
start() {
    local begun=$SECONDS qemu
    setsid env LD_PRELOAD="$image/devices.so" qemu-system-x86_64 "${machine[@]}" -pidfile "$run/pid" \
        < /dev/null > "$run/qemu.log" 2>&1 &
    qemu=$!
    while ! timeout 10 "$here/ssh.sh" true 2> /dev/null; do
        if ! kill -0 "$qemu" 2> /dev/null; then
            if grep -qs "Kernel panic" "$run/console.txt" && ! grep -qs "EXT4-fs (vda)" "$run/console.txt"; then return 2; fi
            echo "virtual-host: QEMU has ended: $(tail -n 1 "$run/qemu.log")" >&2
            return 1
        fi
        if [ $((SECONDS - begun)) -ge "$limit" ]; then
            echo "virtual-host: no SSH after $limit s; the console ends with: $(tail -n 1 "$run/console.txt")" >&2
            return 1
        fi
        sleep 0.5
    done
}

status=0
start || status=$?
if [ $status = 2 ]; then
    why=$(grep -m1 "Kernel panic" "$run/console.txt")
    echo "virtual-host: infrastructure: switched on again, the emulated machine lost an interrupt: $why" | tee -a "$run/infrastructure.txt" >&2
    mv "$run/console.txt" "$run/console-panic-$(date +%H%M%S).txt"
    status=0
    start || status=$?
fi
[ $status = 0 ] || exit 1
# a new connection costs a second under emulation
"$here/ssh.sh" -fNM -o ControlMaster=yes > /dev/null 2>&1
