#!/bin/bash
# Builds what the virtual slice host is made of: the devices that QEMU lacks, and a disk with Debian 12, its generic kernel,
# systemd, libvirt and Open vSwitch, with all packages that the bootstrap of a slice host wants. Quick when it is current.
# The packages come from the mirror that this machine uses. Run as root.
#
# usage: build.sh
# The folder root/ beside this script is laid over the host's root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/virtual-host/place.sh
. "$here/place.sh"
out=$VIRTUAL_HOST/image
root=$out/root

packages=(
    systemd systemd-sysv udev dbus iproute2 netbase openssh-server procps kmod
    linux-image-amd64 initramfs-tools zstd e2fsprogs grub2-common
    # of the bootstrap: agent/src/prepare/packages.rs
    qemu-system-x86 libvirt-daemon-system libvirt-clients virtinst openvswitch-switch cloud-image-utils ovmf rdma-core
    dnsmasq fdisk genisoimage iptables nftables qemu-utils driverctl
    nvme-cli parted pciutils
)
# documentation, translations, and drivers of hardware that the host has not
excluded=(
    '/usr/share/man/*' '/usr/share/doc/*' '/usr/share/locale/*' '/usr/share/info/*'
    '/lib/modules/*/kernel/drivers/gpu/*' '/lib/modules/*/kernel/sound/*' '/lib/modules/*/kernel/drivers/media/*'
    '/lib/modules/*/kernel/drivers/net/wireless/*'
)

devices() {
    gcc -shared -fPIC -O1 -Wall -Wextra -Werror -o "$out/devices.so" "$here/devices.c"
}

# sources.list lines of this machine's Debian: no backports, nothing of others
sources() {
    # shellcheck disable=SC2016  # apt replaces it, not the shell
    apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' \
        | grep -E ' bookworm(-updates|-security)? main$' | sort -u
}

bootstrap() {
    local options=() path
    for path in "${excluded[@]}"; do options+=("--dpkgopt=path-exclude=$path"); done
    sources > "$out/sources.list"
    # before the kernel's package makes the initramfs
    tar -C "$here/root" --owner=0 --group=0 --mode='u=rwX,go=rX' -cf "$out/root.tar" .
    mmdebstrap --quiet --mode=root --variant=apt --include="$(IFS=,; echo "${packages[*]}")" "${options[@]}" \
        --aptopt='APT::Install-Recommends "false"' --dpkgopt='force-unsafe-io' \
        --essential-hook="tar-in $out/root.tar /" bookworm "$root" "$out/sources.list" > "$out/bootstrap.log" 2>&1 \
        || { tail -20 "$out/bootstrap.log" >&2; exit 1; }
    rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin "$out/root.tar"
}

# What an operator's installation has set: a name, a way in, no timers that a host of a few minutes does not need.
settle() {
    [ -f "$VIRTUAL_HOST/key" ] || ssh-keygen -q -t ed25519 -N '' -C virtual-host -f "$VIRTUAL_HOST/key"
    install -D -m 600 "$VIRTUAL_HOST/key.pub" "$root/root/.ssh/authorized_keys"
    rm -f "$root"/etc/ssh/ssh_host_{rsa,ecdsa}_key*
    echo virtual-host > "$root/etc/hostname"
    echo '127.0.0.1 localhost virtual-host' > "$root/etc/hosts"
    echo 'LABEL=root / ext4 defaults,noatime 0 1' > "$root/etc/fstab"
    uuidgen | tr -d - > "$root/etc/machine-id"
    mkdir -p "$root/boot/grub"
    systemctl --quiet --root="$root" enable systemd-networkd.service ssh.service openibd.service
    systemctl --quiet --root="$root" mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service \
        fstrim.timer dpkg-db-backup.timer man-db.timer systemd-networkd-wait-online.service
}

# The module of what sysfs shows of the card's RDMA device, with the headers of the host's kernel.
fabric() {
    local version headers=$out/headers package
    version=$(ls "$root/lib/modules")
    mkdir -p "$headers" "$out/fabric"
    # apt's sandbox user cannot write below a private folder
    (cd "$headers" && apt-get -qq -o APT::Sandbox::User=root download "linux-headers-$version" \
        "linux-headers-${version%-amd64}-common" "linux-kbuild-${version%.*}")
    for package in "$headers"/*.deb; do dpkg -x "$package" "$headers/root"; done
    cp "$here"/fabric/* "$out/fabric/"
    # they name each other by absolute paths
    # shellcheck disable=SC2016
    unshare --mount sh -c 'mount -t overlay -o "lowerdir=$1/usr:/usr" overlay /usr && make -s -C "/usr/src/linux-headers-$2" M="$3"' \
        sh "$headers/root" "$version" "$out/fabric" > "$out/fabric.log" 2>&1 || { cat "$out/fabric.log" >&2; exit 1; }
    install -D -m 644 "$out/fabric/fabric.ko" "$root/usr/local/lib/fabric.ko"
    strip --strip-debug "$root/usr/local/lib/fabric.ko"
    rm -rf "$headers"
}

# An uncompressed kernel: under emulation a compressed one needs many seconds to unpack itself.
kernel() {
    local version
    version=$(ls "$root/lib/modules")
    cp "$root/boot/initrd.img-$version" "$out/initrd"
    python3 - "$root/boot/vmlinuz-$version" "$out/kernel" << 'PYTHON'
import lzma, sys
packed = open(sys.argv[1], "rb").read()
start = packed.find(b"\xfd7zXZ\x00")
open(sys.argv[2], "wb").write(lzma.LZMADecompressor().decompress(packed[start:]))
PYTHON
}

disk() {
    rm -f "$out/host.raw"
    truncate -s 6000M "$out/host.raw"
    mke2fs -q -t ext4 -L root -E lazy_itable_init=1,lazy_journal_init=1 -d "$root" "$out/host.raw"
}

digest=$(cd "$here" && find build.sh devices.c fabric root -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
if [ "$(cat "$out/digest" 2> /dev/null)" = "$digest" ] && [ -f "$VIRTUAL_HOST/key" ]; then exit 0; fi
for program in gcc make mmdebstrap mke2fs ssh-keygen python3 uuidgen qemu-system-x86_64 qemu-img; do
    command -v $program > /dev/null || { echo "virtual-host: $program is not installed" >&2; exit 1; }
done
rm -rf "$out"
mkdir -p "$out"
devices
bootstrap
settle
fabric
kernel
disk
rm -rf "$root"
echo "$digest" > "$out/digest"
