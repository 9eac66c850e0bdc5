#!/bin/sh
# Plays the programs of a host in tests of host preparation: what they change they keep in files, below the tree of the host
# where the host has them there, else below STATE. Every call is a line of STATE/calls.
#
# Linked under the name of each program; STATE is the folder above the links, the host is STATE/host.
set -eu
program=${0##*/}
STATE=$(dirname "$(dirname "$0")")
host=$STATE/host
echo "$program $*" >> "$STATE/calls"
if [ -x "$STATE/instead/$program" ]; then exec "$STATE/instead/$program" "$@"; fi

units() {
    verb=$1
    shift
    now=""
    for word in "$@"; do case $word in --now) now=1 ;; esac; done
    for word in "$@"; do
        case $word in --*) continue ;; esac
        unit=$STATE/units/${word%.service}
        case $verb in
            show)
                if [ ! -e "$unit" ]; then echo LoadState=not-found; return; fi
                echo LoadState=loaded
                if [ -e "$unit.active" ]; then echo ActiveState=active; else echo ActiveState=inactive; fi
                if [ -e "$unit.enabled" ]; then echo UnitFileState=enabled
                elif [ -e "$unit.static" ]; then echo UnitFileState=static
                else echo UnitFileState=disabled; fi
                if [ -e "$unit.unread" ]; then echo NeedDaemonReload=yes; else echo NeedDaemonReload=no; fi
                if [ -e "$unit.active" ]; then
                    date -u -r "$unit.active" '+InactiveExitTimestamp=%a %Y-%m-%d %H:%M:%S.%6N UTC'
                fi
                ;;
            enable) : > "$unit" && : > "$unit.enabled" && if [ -n "$now" ]; then : > "$unit.active"; fi ;;
            disable) rm -f "$unit.enabled" && if [ -n "$now" ]; then rm -f "$unit.active"; fi ;;
            mask) rm -f "$unit.static" "$unit.enabled" && if [ -n "$now" ]; then rm -f "$unit.active"; fi ;;
            start | restart) : > "$unit" && : > "$unit.active" ;;
        esac
    done
}

# link NAME: what `ip -json address show dev NAME` prints
link() {
    if [ ! -d "$STATE/links/$1" ]; then echo "Device \"$1\" does not exist." >&2; exit 1; fi
    up="" addresses=""
    if [ -e "$STATE/links/$1/up" ]; then up='"UP"'; fi
    if [ -e "$STATE/links/$1/no-carrier" ]; then up='"NO-CARRIER","UP"'; fi
    if [ -e "$STATE/links/$1/address" ]; then
        read -r address < "$STATE/links/$1/address"
        addresses="{\"family\":\"inet\",\"local\":\"${address%/*}\",\"prefixlen\":${address#*/}}"
    fi
    echo "[{\"ifname\":\"$1\",\"flags\":[$up],\"addr_info\":[$addresses]}]"
}

rules=$STATE/rules
case "$program $*" in "iptables -t filter "*) rules=$STATE/forward ;; esac
case "$program $*" in
    "systemctl show "*) shift 2 && units show "$@" ;;
    "systemctl enable "* | "systemctl disable "* | "systemctl mask "* | "systemctl start "* | "systemctl restart "*) units "$@" ;;
    "ip -json address show dev "*) link "$5" ;;
    "ip link add name "*) mkdir -p "$STATE/links/$4" ;;
    "ip link set dev "*) : > "$STATE/links/$4/up" ;;
    "ip address replace "*) echo "$3" > "$STATE/links/$5/address" ;;
    "networkctl reconfigure "*)
        sed -n "/^    $2:/,/^    [a-z]/s/^        - \([0-9]\)/\1/p" "$host/etc/netplan/60-ipoib.yaml" > "$STATE/links/$2/address"
        ;;
    "ovs-vsctl --timeout=5 br-exists "*) [ -d "$STATE/links/$3" ] || exit 2 ;;
    "ovs-vsctl --timeout=20 --may-exist add-br "*) mkdir -p "$STATE/links/$4" ;;
    "iptables -t "*" -S "*)
        echo "-P $4 ACCEPT"
        if [ -e "$rules" ]; then cat "$rules"; fi
        ;;
    "iptables -t "*" -A "*) shift 3 && echo "-A $*" >> "$rules" ;;
    "iptables -t "*" -D "*)
        shift 3
        first=$(grep -nFx -m 1 -e "-A $*" "$rules")
        sed -i "${first%%:*}d" "$rules"
        ;;
    "systemctl daemon-reload") rm -f "$STATE"/units/*.unread ;;
    "sysctl --quiet --load "*)
        sed -n 's/ = /\n/p' "$host$3" | while read -r key && read -r value; do
            setting=$host/proc/sys/$(echo "$key" | tr . /)
            if [ -e "$setting" ]; then echo "$value" > "$setting"; fi
        done
        ;;
    "sysctl --quiet --write "*) echo 1 > "$host/proc/sys/net/ipv4/ip_forward" ;;
    "modprobe -a "*) shift && for module in "$@"; do mkdir -p "$host/sys/module/$module"; done ;;
    "apt-cache show "*)
        [ ! -e "$STATE/no-optional-packages" ] || exit 100
        if [ ! -e "$STATE/mentioned-packages" ]; then echo "Package: $2"; fi
        ;;
    "apt-get install "*)
        for package in "$@"; do
            case $package in -*) continue ;; esac
            printf 'Package: %s\nStatus: install ok installed\n\n' "$package" >> "$host/var/lib/dpkg/status"
        done
        ;;
    "virsh "*" dumpxml "*) cat "$STATE/domain.xml" ;;
    "virsh "*) cat "$STATE/domains" ;;
    "mdadm --detail --scan") if [ -e "$STATE/arrays" ]; then cat "$STATE/arrays"; fi ;;
    "update-initramfs "*) touch "$host"/boot/initrd.img-* ;;
    "umount "*) sed -i "\| $1 |d" "$host/proc/self/mountinfo" ;;
    "wipefs --json --no-act "*)
        signature=$STATE/signatures/${3##*/}
        if [ -e "$signature" ]; then cat "$signature"; fi
        rm -rf "$host/proc/950"
        ;;
    "wipefs --all "*)
        name=${2##*/}
        if [ -e "$STATE/device-manager" ]; then
            mkdir -p "$host/proc/950/fd"
            echo "(udev-worker)" > "$host/proc/950/comm"
            ln -sf "/dev/$name" "$host/proc/950/fd/9"
        fi
        rm -f "$STATE/signatures/$name"
        # the kernel forgets the partitions of a disk without a table
        folder=$(readlink -f "$host/sys/class/block/$name")
        for partition in "$folder/$name"p*; do
            case $name in *p[0-9]*) break ;; esac
            if [ -d "$partition" ]; then rm -r "$partition" "$host/sys/class/block/${partition##*/}"; fi
        done
        ;;
esac
