#!/bin/bash
# Builds the Debian package of the node agent and prints its path. The same commit built at the same time gives the same
# bytes: SOURCE_DATE_EPOCH is the time of the build.
#
# usage: build.sh FOLDER
# PROFILE: how the program is built, "release" unless given
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(realpath -m "${1:?usage: build.sh FOLDER}")
profile=${PROFILE:-release}
name=gpuaas-node-agent
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(date +%s)}
commit=$(git rev-parse --short=8 HEAD)
changed=""
[ -z "$(git status --porcelain --untracked-files=no)" ] || changed=.changed
GPUAAS_VERSION=$commit$changed
GPUAAS_BUILT_AT=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
export GPUAAS_VERSION GPUAAS_BUILT_AT
cargo build --quiet --profile "$profile" --workspace --bin $name
program=target/${profile/#dev/debug}/$name
[ "$profile" = dev ] || deploy/without-faults.sh "$program"
sources=$(cargo metadata --no-deps --format-version 1 | jq -r '.packages[] | select(.name == "gpuaas-agent").version')
# grows with the history, so that a later commit is an upgrade
version=$sources+$(git log -1 --format=%cd --date=format-local:%Y%m%d%H%M%S).$commit$changed

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
doc=usr/share/doc/$name
# put MODE FILE PATH
put() { install -D --mode="$1" "$2" "$root/$3"; }
umask 022
put 755 "$program" opt/gpuaas/node-agent/$name
strip --strip-unneeded "$root/opt/gpuaas/node-agent/$name"
mkdir -p "$root/usr/bin"
ln -s ../../opt/gpuaas/node-agent/$name "$root/usr/bin/$name"
put 644 deploy/deb/$name.service lib/systemd/system/$name.service
put 644 deploy/deb/$name-update.service lib/systemd/system/$name-update.service
put 755 deploy/deb/as-service.sh usr/share/$name/gpuaas_node_agent_as_service.sh
put 755 deploy/deb/update.sh usr/share/$name/gpuaas_node_agent_update.sh
for unit in gpuaas-slice-fabric-vfs gpuaas-slice-vfio-devices gpuaas-slice-network-baseline gpuaas-slice-ovs-bridge; do
    put 644 deploy/deb/$unit.service lib/systemd/system/$unit.service
done
for script in deploy_bootstrap net_baseline runtime_prepare parity_check; do
    put 755 scripts/ops/gpuaas_slice_host_$script.sh usr/share/gpuaas-node-agent/gpuaas_slice_host_$script.sh
done
put 755 scripts/ops/gpuaas_slice_storage_transition.sh usr/share/gpuaas-node-agent/gpuaas_slice_storage_transition.sh
put 755 scripts/ops/gpuaas_h200_host_image_validate.sh usr/share/gpuaas-node-agent/gpuaas_h200_host_image_validate.sh
put 644 deploy/deb/default etc/default/$name
put 644 deploy/deb/node-agent.toml $doc/examples/node-agent.toml
put 644 deploy/deb/slice-storage.toml $doc/examples/slice-storage.toml
put 644 deploy/deb/copyright $doc/copyright
mkdir -p "$root/DEBIAN"
printf '%s (%s) stable; urgency=medium\n\n  * version=%s built_at=%s\n\n -- GPUaaS <ops@gpuaas.invalid>  %s\n' \
    $name "$version" "$GPUAAS_VERSION" "$GPUAAS_BUILT_AT" "$(date --utc --date="@$SOURCE_DATE_EPOCH" --rfc-email)" \
    | gzip -9n > "$root/$doc/changelog.Debian.gz"

# dpkg-shlibdeps wants a source package around it
mkdir "$work/debian"
echo "Source: $name" > "$work/debian/control"
libraries=$(cd "$work" && dpkg-shlibdeps -O "root/opt/gpuaas/node-agent/$name" 2> /dev/null)
cat > "$root/DEBIAN/control" << CONTROL
Package: $name
Version: $version
Section: admin
Priority: optional
Architecture: $(dpkg --print-architecture)
Maintainer: GPUaaS <ops@gpuaas.invalid>
Installed-Size: $(du --summarize --block-size=1024 --exclude=DEBIAN "$root" | cut -f1)
Depends: ${libraries#shlibs:Depends=}
Recommends: dnsmasq-base, iproute2, libvirt-daemon-system, nftables, nvme-cli, openvswitch-switch, ovmf, qemu-system-x86, qemu-utils
Description: agent of one GPUaaS host
 Leases the slots of a GPU node to the control plane, runs a VM per slice, wipes
 and verifies disks, and reports what the host is ready for.
 .
 Installing it changes nothing of the host: the service is neither enabled nor
 started, and does not start without /etc/gpuaas/node-agent.toml.
CONTROL
echo /etc/default/$name > "$root/DEBIAN/conffiles"
put 755 deploy/deb/postinst DEBIAN/postinst
put 755 deploy/deb/preinst DEBIAN/preinst
put 755 deploy/deb/postrm DEBIAN/postrm
put 755 deploy/deb/prerm DEBIAN/prerm
(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$out"
file=$out/${name}_${version}_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$file" > /dev/null
echo "$file"
