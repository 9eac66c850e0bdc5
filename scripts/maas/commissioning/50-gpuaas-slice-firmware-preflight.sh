#!/bin/sh
# --- Start MAAS 1.0 script metadata ---
# name: 50-gpuaas-slice-firmware-preflight
# title: GPUaaS slice firmware preflight
# description: Whether the firmware of a machine lets it run VMs with GPUs; read-only unless told otherwise
# script_type: commissioning
# timeout: 00:30:00
# --- End MAAS 1.0 script metadata ---
#
# Whether a machine is capable of slices by its firmware: BIOS settings by Dell's RACADM, KVM, IOMMU, GPUs, BlueField cards
# and SR-IOV as the kernel shows them, and what is on every NVMe disk. Runs in MAAS commissioning, before there is an agent,
# or as root on a deployed host. Reads only; one line `GPUAAS_SLICE_PREFLIGHT` per check, a summary, and status 1 when a
# required check fails. Registered by
#   maas PROFILE node-scripts create name=50-gpuaas-slice-firmware-preflight script@=THIS_FILE
# I-36..I-63, INC-09, CON-03, CON-14
#
# GPUAAS_SLICE_APPLY_BIOS=1         after approval: set what differs, and queue a power cycle that applies it
# GPUAAS_SLICE_INSTALL_RACADM=0     do not install RACADM where it is missing
set -u
# the machine's files; another folder in tests
root=${GPUAAS_SLICE_PREFLIGHT_ROOT:-}
failures=0 warnings=0

# attribute, value, whether a machine without it is not capable
profile='BIOS.ProcSettings.ProcVirtualization Enabled required
BIOS.ProcSettings.LogicalProc Enabled recommended
BIOS.IntegratedDevices.SriovGlobalEnable Enabled required'

key_url=https://linux.dell.com/repo/pgp_pubkeys/0x1285491434D8786F.asc
keyring=/usr/share/keyrings/dell-openmanage.gpg
list=/etc/apt/sources.list.d/linux.dell.com.sources.list
repository=http://linux.dell.com/repo/community/openmanage/11010/jammy

# value: as a shell reads it back
value() { printf '%s' "$1" | tr '\n\t' '  ' | sed 's/[^A-Za-z0-9_.,:@%+=/-]/\\&/g'; }

# result STATUS CHECK DETAIL [REMEDIATION]
result() {
    case $1 in FAIL) failures=$((failures + 1)) ;; WARN) warnings=$((warnings + 1)) ;; esac
    printf 'GPUAAS_SLICE_PREFLIGHT status=%s check=%s detail=%s' "$1" "$2" "$(value "$3")"
    if [ -n "${4:-}" ] && [ "$1" != PASS ]; then printf ' remediation=%s' "$(value "$4")"; fi
    printf '\n'
}

# The signed repository of Dell, its key for this repository alone; never without a signature.
install_racadm() {
    [ "${GPUAAS_SLICE_INSTALL_RACADM:-1}" != 0 ] || return 1
    mkdir -p "$root${keyring%/*}" "$root${list%/*}" || return 1
    new=$(mktemp) || return 1
    if ! curl --fail --silent --show-error --location "$key_url" > "$new" ||
        ! gpg --batch --yes --dearmor --output "$root$keyring" "$new"; then
        rm -f "$new"
        return 1
    fi
    rm -f "$new"
    printf 'deb [signed-by=%s] %s jammy main\n' "$keyring" "$repository" > "$root$list"
    apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes srvadmin-hapi srvadmin-idracadm7 srvadmin-idracadm8
}

# bios NAME: its value now, of a group that RACADM prints as Name=Value
bios() {
    racadm get "${1%.*}" 2> /dev/null | tr -d '\r' | sed -n "s/^#\{0,1\}${1##*.}=\([^ ]*\).*/\1/p" | head -n 1
}

check_bios() {
    if ! command -v racadm > /dev/null && ! install_racadm > /dev/null 2>&1; then
        result FAIL racadm 'RACADM is not installed, and was not from the signed repository' "see $repository and $key_url"
        return
    fi
    if ! version=$(racadm getversion 2>&1); then
        result FAIL racadm "racadm getversion: $version" 'is this a Dell machine with an iDRAC?'
        return
    fi
    result PASS racadm "$(printf '%s\n' "$version" | sed -n '/./{p;q;}')"
    differs=''
    while read -r name wanted need; do
        now=$(bios "$name")
        status=PASS
        if [ "$now" != "$wanted" ]; then
            differs="$differs $name"
            if [ "$need" = required ]; then status=FAIL; else status=WARN; fi
        fi
        result "$status" "bios_${name##*.}" "$name=${now:-unknown}, $need is $wanted" 'GPUAAS_SLICE_APPLY_BIOS=1 after approval'
    done << EOF
$profile
EOF
    if [ "${GPUAAS_SLICE_APPLY_BIOS:-0}" != 1 ] || [ -z "$differs" ]; then return; fi
    while read -r name wanted need; do
        case " $differs " in *" $name "*) ;; *) continue ;; esac
        if ! said=$(racadm set "$name" "$wanted" 2>&1); then
            result FAIL bios_apply "$name ($need): $said" 'nothing was queued'
            return
        fi
    done << EOF
$profile
EOF
    if job=$(racadm jobqueue create BIOS.Setup.1-1 -r pwrcycle -s TIME_NOW 2>&1); then
        ids=$(printf '%s\n' "$job" | grep -o '[JR]ID_[0-9]*' | tr '\n' ' ')
        result WARN bios_apply "set:$differs; jobs: $ids" 'commission the machine again after the power cycle'
    else
        result FAIL bios_apply "the job was not queued: $job" 'racadm jobqueue view'
    fi
}

check_kernel() {
    if [ -e "$root/dev/kvm" ]; then result PASS kvm present; else
        result FAIL kvm missing 'enable ProcVirtualization in the firmware; with it, load kvm_intel'
    fi
    groups=0
    for group in "$root"/sys/kernel/iommu_groups/*; do [ -e "$group" ] && groups=$((groups + 1)); done
    if [ "$groups" -gt 0 ]; then result PASS iommu "iommu_groups=$groups"; else
        result WARN iommu iommu_groups=0 'the commissioning kernel may lack intel_iommu=on; on a deployed host it is the firmware'
    fi
}

check_pci() {
    gpus=0 cards=0 functions=0
    for device in "$root"/sys/bus/pci/devices/*; do
        [ -e "$device/vendor" ] || continue
        read -r vendor < "$device/vendor"
        read -r class < "$device/class"
        case $vendor$class in
            0x10de0x0300* | 0x10de0x0302*) gpus=$((gpus + 1)) ;;
            0x15b3*)
                read -r id < "$device/device"
                if [ "$id" = 0xa2dc ]; then cards=$((cards + 1)); fi
                if [ -e "$device/sriov_totalvfs" ]; then
                    read -r total < "$device/sriov_totalvfs"
                    functions=$((functions + total))
                fi
                ;;
        esac
    done
    if [ "$gpus" -gt 0 ]; then result PASS gpus "gpu_devices=$gpus"; else
        result FAIL gpus gpu_devices=0 'no GPU of NVIDIA is on the PCI bus'
    fi
    if [ "$cards" -gt 0 ]; then result PASS bluefield "bluefield_functions=$cards"; else
        result WARN bluefield bluefield_functions=0
    fi
    if [ "$functions" -gt 0 ]; then result PASS sriov "sriov_totalvfs=$functions"; else
        result WARN sriov sriov_totalvfs=0 'SriovGlobalEnable in the BIOS, SRIOV_EN in the firmware of the card'
    fi
}

# Every whole NVMe disk with its stable link, partitions, mounts, file systems and signatures. Nothing is written.
list_disks() {
    disks=0 used=0
    for disk in "$root"/sys/block/nvme*; do
        name=${disk##*/}
        case $name in *c[0-9]*n*) continue ;; nvme*n*) ;; *) continue ;; esac
        disks=$((disks + 1))
        link=''
        for candidate in "$root"/dev/disk/by-id/nvme-eui.*; do
            case $candidate in *-part*) continue ;; esac
            if [ "$(basename "$(readlink "$candidate")")" = "$name" ]; then link=${candidate#"$root"}; fi
        done
        children='' mounts='' systems=''
        while read -r child kind mount system; do
            [ -n "$child" ] || continue
            if [ "$kind" != disk ]; then children="$children$child,"; fi
            if [ "$mount" != - ]; then mounts="$mounts$mount,"; fi
            if [ "$system" != - ]; then systems="$systems$system,"; fi
        done << EOF
$(lsblk --noheadings --pairs --output NAME,TYPE,MOUNTPOINT,FSTYPE "/dev/$name" 2> /dev/null |
            sed 's/"" */"-" /g; s/[A-Z]*="\([^"]*\)"/\1/g')
EOF
        signatures=$(wipefs --noheadings --output TYPE "/dev/$name" 2> /dev/null | tr -s ' \n' ',')
        if [ -n "$mounts" ]; then used=$((used + 1)); fi
        printf 'GPUAAS_SLICE_NVME device=%s by_id=%s children=%s mounts=%s filesystems=%s signatures=%s\n' "$name" \
            "$(value "$link")" "$(value "${children%,}")" "$(value "${mounts%,}")" "$(value "${systems%,}")" \
            "$(value "${signatures%,}")"
    done
    result PASS nvme "nvme_devices=$disks mounted_nvme_devices=$used"
}

check_bios
check_kernel
check_pci
list_disks
capable=yes
if [ "$failures" -gt 0 ]; then capable=no; fi
echo "GPUAAS_SLICE_PREFLIGHT summary warnings=$warnings failures=$failures firmware_capable=$capable"
[ "$failures" -eq 0 ]
