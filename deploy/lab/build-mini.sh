#!/bin/bash
# Builds the mini guest: Debian's cloud kernel with busybox and dropbear in its initramfs, on a UEFI-bootable GPT disk.
# It boots to an SSH login in seconds even without KVM. Writes OUTDIR/mini.raw, and OUTDIR/mini-dead.raw, a guest that
# boots and never answers.
#
# usage: build-mini.sh OUTDIR
# The kernel package is downloaded by apt once and kept in OUTDIR/kernel.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "${1:?usage: build-mini.sh OUTDIR}" && cd "$1" && pwd)
work=$out/work
root=$work/root

fetch_kernel() {
    [ -f "$out/kernel/done" ] && return
    rm -rf "$out/kernel"; mkdir -p "$out/kernel"
    local package
    package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/{print $2; exit}')
    # apt's sandbox user cannot write below a private folder
    (cd "$out/kernel" && apt-get -o APT::Sandbox::User=root download "$package" > /dev/null)
    dpkg -x "$out"/kernel/*.deb "$out/kernel"
    rm -f "$out"/kernel/*.deb
    depmod -b "$out/kernel" "$(ls "$out/kernel/lib/modules")"
    touch "$out/kernel/done"
}

copy_programs() {
    cp /bin/busybox "$root/bin/"
    local applet library
    for applet in $(busybox --list); do
        [ "$applet" = busybox ] || ln -sf busybox "$root/bin/$applet"
    done
    rm "$root/bin/su"
    install -m 4755 /bin/busybox "$root/bin/su"
    cp /usr/sbin/dropbear /usr/bin/dropbearkey /usr/bin/dropbearconvert "$root/sbin/"
    for library in $(ldd /usr/sbin/dropbear /usr/bin/dropbearkey /usr/bin/dropbearconvert | grep -oE '/lib[^ ]+' | sort -u) \
        /lib/x86_64-linux-gnu/libnss_files.so.2; do
        [ -e "$library" ] || continue
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
}

# Modules in load order: what a module needs comes before it.
copy_modules() {
    local version module file name
    version=$(ls "$out/kernel/lib/modules")
    : > "$root/etc/modules.list"
    for module in virtio_pci virtio_blk nvme virtio_net virtio_scsi sr_mod ata_piix isofs button evdev virtio_rng; do
        modprobe -S "$version" -d "$out/kernel" --show-depends "$module" 2> /dev/null \
            | awk '/^insmod/{print $2}' > "$work/modules"
        while read -r file; do
            name=$(basename "$file")
            grep -qx "$name" "$root/etc/modules.list" && continue
            cp "$file" "$root/etc/modules/"
            echo "$name" >> "$root/etc/modules.list"
        done < "$work/modules"
    done
}

write_files() {
    printf 'root:x:0:0::/root:/bin/sh\n' > "$root/etc/passwd"
    # no password: logins by password are off, and su is the sudo of this guest
    printf 'root::1::::::\n' > "$root/etc/shadow"
    printf 'root:x:0:\n' > "$root/etc/group"
    echo /bin/sh > "$root/etc/shells"
    printf 'passwd: files\ngroup: files\nshadow: files\n' > "$root/etc/nsswitch.conf"
    mkdir -p "$root/etc/acpi/PWRF"
    printf '#!/bin/sh\nsync; poweroff -f\n' > "$root/etc/acpi/PWRF/00000080"
    install -m 755 "$here/guest/udhcpc.sh" "$root/usr/share/udhcpc/default.script"
    install -m 755 "$here/guest/init" "$root/init"
    chmod 755 "$root/etc/acpi/PWRF/00000080"
}

# disk NAME KERNEL_ARGUMENTS
disk() {
    local image=$out/$1.raw esp=$work/$1.esp
    # cryptomgr.notests: under emulation the kernel tests its own cryptography for more than a second
    printf 'linux /vmlinuz console=ttyS0 quiet mitigations=off cryptomgr.notests %s\ninitrd /initrd.img\nboot\n' "$2" > "$work/grub.cfg"
    grub-mkimage -d /usr/lib/grub/x86_64-efi -O x86_64-efi -o "$work/bootx64.efi" -c "$work/grub.cfg" -p / \
        part_gpt fat linux normal boot
    rm -f "$esp" "$image.new"
    truncate -s 40M "$esp"
    mkfs.vfat -n ESP "$esp" > /dev/null
    mmd -i "$esp" ::/EFI ::/EFI/BOOT
    mcopy -i "$esp" "$work/bootx64.efi" ::/EFI/BOOT/BOOTX64.EFI
    mcopy -i "$esp" "$work/vmlinuz" "$work/initrd.img" ::/
    truncate -s 48M "$image.new"
    sgdisk -n 1:2048:+40M -t 1:ef00 "$image.new" > /dev/null
    dd if="$esp" of="$image.new" bs=1M seek=1 conv=notrunc,sparse status=none
    mv "$image.new" "$image"
}

rm -rf "$work"
mkdir -p "$root"/{bin,sbin,dev,proc,sys,run,tmp,etc/dropbear,etc/modules,root,mnt,lib64,home,var/log,usr/share/udhcpc}
chmod 1777 "$root/tmp"
fetch_kernel
copy_programs
copy_modules
write_files
(cd "$root" && find . | cpio -o -H newc --quiet -R 0:0 | lz4 -l -9) > "$work/initrd.img"
cp "$out"/kernel/boot/vmlinuz-* "$work/vmlinuz"
disk mini ''
disk mini-dead mini.mute
rm -rf "$work"
ls -ls "$out"/*.raw
