#!/bin/bash
# Builds the agent's package, looks into it, and installs, upgrades, removes and purges it in a folder that plays a host's
# root: nothing is there that the package does not list, and nothing of the host is changed.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=gpuaas-node-agent
export PROFILE=${PROFILE:-measure} SOURCE_DATE_EPOCH=1776424872

fail() { echo "test-deb: $*" >&2; exit 1; }
# same WHAT EXPECTED ACTUAL
same() { [ "$2" = "$3" ] || { diff <(echo "$2") <(echo "$3") >&2 || true; fail "$1"; }; }

package=$(deploy/deb/build.sh "$work/first")
again=$(deploy/deb/build.sh "$work/second")
cmp "$package" "$again" || fail "the same commit built at the same time gives other bytes"
commit=$(git rev-parse --short=8 HEAD)

# what is in it: mode, owner, path
listed=$(dpkg-deb -c "$package" | awk '{ print $1, $2, $6 $7 $8 }' | grep -v '/$')
same "the files are others" "$(cat << FILES
-rw-r--r-- root/root ./etc/default/$name
-rw-r--r-- root/root ./lib/systemd/system/$name-update.service
-rw-r--r-- root/root ./lib/systemd/system/$name.service
-rw-r--r-- root/root ./lib/systemd/system/gpuaas-slice-fabric-vfs.service
-rw-r--r-- root/root ./lib/systemd/system/gpuaas-slice-network-baseline.service
-rw-r--r-- root/root ./lib/systemd/system/gpuaas-slice-ovs-bridge.service
-rw-r--r-- root/root ./lib/systemd/system/gpuaas-slice-vfio-devices.service
-rwxr-xr-x root/root ./opt/gpuaas/node-agent/$name
lrwxrwxrwx root/root ./usr/bin/$name->../../opt/gpuaas/node-agent/$name
-rw-r--r-- root/root ./usr/share/doc/$name/changelog.Debian.gz
-rw-r--r-- root/root ./usr/share/doc/$name/copyright
-rw-r--r-- root/root ./usr/share/doc/$name/examples/node-agent.toml
-rw-r--r-- root/root ./usr/share/doc/$name/examples/slice-storage.toml
-rwxr-xr-x root/root ./usr/share/gpuaas-node-agent/gpuaas_h200_host_image_validate.sh
-rwxr-xr-x root/root ./usr/share/gpuaas-node-agent/gpuaas_node_agent_as_service.sh
-rwxr-xr-x root/root ./usr/share/gpuaas-node-agent/gpuaas_node_agent_update.sh
-rwxr-xr-x root/root ./usr/share/gpuaas-node-agent/gpuaas_slice_host_deploy_bootstrap.sh
-rwxr-xr-x root/root ./usr/share/gpuaas-node-agent/gpuaas_slice_host_net_baseline.sh
-rwxr-xr-x root/root ./usr/share/gpuaas-node-agent/gpuaas_slice_host_parity_check.sh
-rwxr-xr-x root/root ./usr/share/gpuaas-node-agent/gpuaas_slice_host_runtime_prepare.sh
-rwxr-xr-x root/root ./usr/share/gpuaas-node-agent/gpuaas_slice_storage_transition.sh
FILES
)" "$(sort -k3 <<< "$listed")"
folders=$(dpkg-deb -c "$package" | awk '/\/$/ { print $1, $2 }' | sort -u)
same "a folder has another mode or owner" "drwxr-xr-x root/root" "$folders"

# what it says of itself
field() { dpkg-deb -f "$package" "$1"; }
same "its name" $name "$(field Package)"
same "its architecture" "$(dpkg --print-architecture)" "$(field Architecture)"
[[ $(field Version) =~ ^[0-9.]+\+[0-9]{14}\.$commit(\.changed)?$ ]] || fail "its version is $(field Version)"
dpkg --validate-version "$(field Version)"
[[ $(field Maintainer) =~ ^.+\ \<.+@.+\>$ ]] || fail "its maintainer is $(field Maintainer)"
[[ $(field Depends) == *libvirt0* && $(field Depends) == *libc6* ]] || fail "it depends on $(field Depends)"
[ "$(field Description | wc -l)" -gt 2 ] || fail "its description is short"
[ "$(field Description | awk 'length > 80' | wc -l)" = 0 ] || fail "a line of its description is long"
same "its control files" "conffiles control md5sums postinst postrm preinst prerm" "$(dpkg-deb --ctrl-tarfile "$package" \
    | tar --list | sed 's|^\./||' | grep . | sort | paste -sd ' ')"

# a host, before and after
root=$work/host
mkdir -p "$root"/var/lib/dpkg/{info,updates,parts,triggers}
touch "$root"/var/lib/dpkg/{status,available}
try() {
    dpkg --root="$root" --log=/dev/null --force-depends --force-script-chrootless --force-not-root "$@" > "$work/said" 2>&1
}
host() { try "$@" || { cat "$work/said" >&2; fail "dpkg $*"; }; }
present() { (cd "$root" && find . -path ./var/lib/dpkg -prune -o ! -type d -printf '%p\n' | sort); }
host --install "$package"
same "there is more than the package lists" "$(dpkg-deb -c "$package" | grep -v '/$' | awk '{ print $6 }' | sort)" "$(present)"
(cd "$root" && md5sum --quiet --check var/lib/dpkg/info/$name.md5sums) || fail "a checksum is wrong"
said=$("$root/usr/bin/../../opt/gpuaas/node-agent/$name" --version)
same "its build (A-10)" "$name version=$(field Version | sed 's/.*+[0-9]*\.//') built_at=2026-04-17T11:21:12Z" "$said"
[ "$(readlink -f "$root/usr/bin/$name")" = "$root/opt/gpuaas/node-agent/$name" ] || fail "the link leads elsewhere"
if command -v systemd-analyze > /dev/null; then
    # a path that only the host has
    units=()
    for unit in "$root"/lib/systemd/system/*.service; do
        sed "s|/opt/gpuaas|$root/opt/gpuaas|; s|/usr/share/gpuaas|$root/usr/share/gpuaas|" "$unit" > "$work/${unit##*/}"
        units+=("$work/${unit##*/}")
    done
    systemd-analyze verify --man=no --recursive-errors=no "${units[@]}" || fail "a unit is wrong"
fi
# the example is a whole configuration: what is missing for a start is the authority, which is no part of it
outcome=$("$root/opt/gpuaas/node-agent/$name" --config deploy/deb/node-agent.toml --set "agent.state_dir=$work/state" topology 2>&1 || true)
[[ $outcome == *tls.ca_file*/etc/gpuaas/ca.pem* ]] || fail "the example is not accepted: $outcome"

# what an operator has written stays, until a purge removes what the package has brought
echo 'GPUAAS_NODE_AGENT_OPTIONS="--set telemetry.log=debug"' > "$root/etc/default/$name"
mkdir -p "$root/etc/gpuaas" "$root/var/lib/gpuaas"
cp deploy/deb/node-agent.toml "$root/etc/gpuaas/node-agent.toml"
host --install "$package"
grep -q telemetry.log=debug "$root/etc/default/$name" || fail "an upgrade overwrites the operator's defaults"

# a removal, on a host that was prepared: what was enabled, and a device that host preparation has bound
enabled() { (cd "$root" && find etc/systemd/system -name '*.service' 2> /dev/null | sort); }
systemctl --quiet --root="$root" enable $name gpuaas-slice-fabric-vfs gpuaas-slice-vfio-devices \
    gpuaas-slice-network-baseline gpuaas-slice-ovs-bridge
before=$(present)
[ "$(enabled | wc -l)" = 5 ] || fail "the played host has other units enabled: $(enabled)"
state=$root/var/lib/gpuaas
journal() { python3 - "$state/journal.sqlite" "$1" << 'SQL'
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as journal:
    journal.executescript(sys.argv[2])
SQL
}
slot=0192f0c1-1111-7bbb-8ccc-000000000000 allocation=158ea147-0115-407f-bbd5-1850c32b9517
journal "$(cat agent/src/journal/schema.sql); INSERT INTO holds (slot_id, allocation_id) VALUES ('$slot', '$allocation');
    INSERT INTO fences (slot_id, cell_epoch, slot_generation, workflow_epoch) VALUES ('$slot', 1, 1, 1)"
echo 0000:1b:00.0 > "$state/vfio-devices"
# says TEXT: what the removal said of it
says() { grep -qF "$1" "$work/said" || { cat "$work/said" >&2; fail "the removal does not say \"$1\""; }; }
! try --remove $name || fail "it is removed while an allocation holds a slot"
says "gpuaas-slice-${allocation//-/}"
says GPUAAS_REMOVE_WITH_VMS=1
same "a removal that is refused changes something" "$before" "$(present | grep -v /var/lib/gpuaas/)"
# a drop-in of the operator names another state folder
own=$root/etc/systemd/system/$name.service.d
mkdir -p "$own" "$root/srv"
mv "$state" "$root/srv/gpuaas"
state=$root/srv/gpuaas
echo 0000:3b:00.0 > "$state/vfio-devices"
printf '[Service]\nEnvironmentFile=/etc/gpuaas/agent.env\n' > "$own/site.conf"
echo "GPUAAS_NODE_AGENT_OPTIONS='--set agent.state_dir=/srv/gpuaas'" > "$root/etc/gpuaas/agent.env"
! try --remove $name || fail "it is removed while an allocation holds a slot by the journal that a drop-in names"
says "gpuaas-slice-${allocation//-/}"
journal "DELETE FROM holds"
host --remove $name
[ ! -e "$root/opt/gpuaas/node-agent/$name" ] || fail "a removal leaves the program"
same "the units that are still enabled" "" "$(enabled)"
says "stay bound to vfio-pci, also at the next start of the host: 0000:3b:00.0. To give each back: driverctl unset-override"
rm -r "$own" "$root/etc/gpuaas/agent.env"
mv "$state" "$root/var/lib/gpuaas"
state=$root/var/lib/gpuaas

# who says so removes it with a hold, and what it keeps of the slot stays
host --install "$package"
journal "INSERT INTO holds (slot_id, allocation_id) VALUES ('$slot', '$allocation')"
GPUAAS_REMOVE_WITH_VMS=1 host --remove $name
host --purge $name
same "what is left after a purge" "./etc/gpuaas/node-agent.toml
./var/lib/gpuaas/journal.sqlite
./var/lib/gpuaas/vfio-devices" "$(present)"
deploy/deb/test-update.sh "$package"
echo "test-deb: $(basename "$package") is whole, and changes nothing of a host ($(stat -c %s "$package") bytes)"
