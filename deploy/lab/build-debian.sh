#!/bin/bash
# Builds the Debian guest: Debian 12 with systemd, OpenSSH and cloud-init on a UEFI-bootable GPT disk that grows to the
# disk it is copied to. Writes OUTDIR/debian.raw. The packages come from the mirror that this machine uses. Run as root.
#
# usage: build-debian.sh OUTDIR
# The folder debian/ beside this script is laid over the guest's root before its kernel is installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "${1:?usage: build-debian.sh OUTDIR}" && cd "$1" && pwd)
work=$out/debian-work
root=$work/root

# cloud-init calls sudo, growpart, resize2fs and sfdisk
packages=(
    linux-image-cloud-amd64 initramfs-tools zstd systemd-sysv systemd-resolved udev dbus kmod e2fsprogs
    openssh-server cloud-init cloud-guest-utils fdisk sudo iproute2 netbase
)
# documentation but for licences, translations, names of hardware
excluded=(
    '/usr/share/doc/*' '/usr/share/man/*' '/usr/share/info/*' '/usr/share/lintian/*' '/usr/share/locale/*'
    '/usr/share/i18n/*' '/lib/udev/hwdb.d/*'
)

# sources.list lines of this machine's Debian: no backports, nothing of others
sources() {
    # shellcheck disable=SC2016  # apt replaces it, not the shell
    apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' \
        | grep -E ' bookworm(-updates|-security)? main$' | sort -u
}

bootstrap() {
    local options=() path
    for path in "${excluded[@]}"; do options+=("--dpkgopt=path-exclude=$path"); done
    options+=('--dpkgopt=path-include=/usr/share/doc/*/copyright')
    sources > "$work/sources.list"
    tar -C "$here/debian" --owner=0 --group=0 --mode='u=rwX,go=rX' -cf "$work/files.tar" etc usr
    mmdebstrap --quiet --mode=root --variant=minbase --include="$(IFS=,; echo "${packages[*]}")" "${options[@]}" \
        --essential-hook="tar-in $work/files.tar /" bookworm "$root" "$work/sources.list"
}

# A guest like no other: no trace of the machine it was built on, no key, no identity.
depersonalize() {
    rm -f "$root"/etc/ssh/ssh_host_*_key* "$root/etc/apt/sources.list" "$root"/var/log/*.log
    : > "$root/etc/machine-id"
    echo debian > "$root/etc/hostname"
    ln -sf ../run/systemd/resolve/stub-resolv.conf "$root/etc/resolv.conf"
    systemctl --quiet --root="$root" enable systemd-networkd.service
    # work that a guest of a few minutes does not need
    systemctl --quiet --root="$root" mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer \
        e2scrub_reap.service
}

# The root file system, with room for a first boot: cloud-init grows it, and it writes before.
root_file_system() {
    local image=$work/root.ext4
    truncate -s "$(($(du -sxm "$root" | cut -f1) + 40))M" "$image"
    mke2fs -q -t ext4 -L debian -m 0 -N 32768 -J size=4 -d "$root" "$image"
}

boot_partition() {
    printf '%s\n' 'search --no-floppy --label debian --set=root' \
        'linux /vmlinuz root=LABEL=debian ro console=ttyS0 quiet mitigations=off cryptomgr.notests' 'initrd /initrd.img' 'boot' \
        > "$work/grub.cfg"
    grub-mkimage -d /usr/lib/grub/x86_64-efi -O x86_64-efi -o "$work/bootx64.efi" -c "$work/grub.cfg" -p / \
        part_gpt ext2 linux normal boot search search_label
    truncate -s 2M "$work/esp"
    mkfs.vfat -n ESP "$work/esp" > /dev/null
    mmd -i "$work/esp" ::/EFI ::/EFI/BOOT
    mcopy -i "$work/esp" "$work/bootx64.efi" ::/EFI/BOOT/BOOTX64.EFI
}

disk() {
    local image=$out/debian.raw mib
    mib=$(($(stat -c %s "$work/root.ext4") >> 20))
    rm -f "$image.new"
    # one MiB each for the two partition tables
    truncate -s $((mib + 4))M "$image.new"
    sgdisk -n 1:1M:+2M -t 1:ef00 -n 2:3M:+${mib}M -t 2:8304 "$image.new" > /dev/null
    dd if="$work/esp" of="$image.new" bs=1M seek=1 conv=notrunc,sparse status=none
    dd if="$work/root.ext4" of="$image.new" bs=1M seek=3 conv=notrunc,sparse status=none
    mv "$image.new" "$image"
}

rm -rf "$work"
mkdir -p "$work"
bootstrap
depersonalize
root_file_system
boot_partition
disk
rm -rf "$work"
ls -ls "$out/debian.raw"
