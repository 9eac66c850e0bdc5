#!/bin/bash
# Installs what building, testing and running GPUaaS on one Debian 12 machine needs and says what each thing is for.
# Quick and silent when nothing is missing. Run as root.
set -euo pipefail

# package: why
packages() {
    cat << 'LIST'
build-essential: linker and C compiler for native crates
ca-certificates: HTTPS
curl: checks of HTTP endpoints
git: source
jq: examples of the documentation
libvirt-dev: the agent's libvirt bindings
libxml2-utils: checks of domain descriptions
mold: fast linking
openssl: checks of certificates
pkg-config: native crates
procps: process tools
python3-venv: buf, the Python SDK
shellcheck: lint of the scripts
util-linux: namespaces, loop devices
postgresql: the database
postgresql-client: the database
redis-server: wake-ups
redis-tools: wake-ups
docker-registry: guest images
libvirt-clients: lab host
libvirt-daemon-driver-qemu: lab host
libvirt-daemon-system: lab host
openvswitch-switch: lab host's bridge
dnsmasq-base: lab host's DHCP
nftables: lab host's NAT
iproute2: lab host's network
genisoimage: cloud-init seeds
gdisk: guest images
parted: partition tables
mtools: guest images
dosfstools: guest images
cpio: guest images
lz4: guest images
kmod: guest images
mmdebstrap: Debian guest
busybox-static: mini guest
dropbear-bin: mini guest
grub-efi-amd64-bin: mini guest
grub-common: mini guest
openssh-client: login to guests
LIST
}

# Node.js may have come another way, and then without the packages
command -v npm > /dev/null || node_packages='nodejs npm'

# QEMU and its firmware come from backports: the stock version conflicts with newer QEMU tools that some machines
# already have.
backports='qemu-system-x86 qemu-utils seabios ovmf'

installed() { [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2> /dev/null)" = 'ii ' ]; }

missing=() missing_backports=()
while IFS=: read -r package why; do
    installed "$package" || { missing+=("$package"); echo "install: $package is missing (${why# })"; }
done < <(packages)
for package in ${node_packages:-}; do
    missing+=("$package"); echo "install: $package is missing (console)"
done
for package in $backports; do
    installed "$package" || { missing_backports+=("$package"); echo "install: $package is missing (virtual machines)"; }
done

add_backports() {
    local mirror
    grep -rqs bookworm-backports /etc/apt/sources.list /etc/apt/sources.list.d && return
    # the mirror that this machine already uses
    # shellcheck disable=SC2016  # apt replaces it, not the shell
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' | head -1)
    echo "install: adding the backports suite of this machine's mirror"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm-backports main" \
        > /etc/apt/sources.list.d/gpuaas-backports.list
    apt-get update -qq
}

# Debian starts services as it installs them; the development stack runs its own, private ones.
keep_services_stopped() {
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
        chmod 755 /usr/sbin/policy-rc.d
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    if [ ! -e /etc/postgresql-common/createcluster.conf ] && ! installed postgresql; then
        mkdir -p /etc/postgresql-common
        echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf
    fi
}

disable_services() {
    [ -d /run/systemd/system ] || return 0
    local pair
    for pair in postgresql:postgresql redis-server:redis-server docker-registry:docker-registry \
        libvirt-daemon-system:libvirtd openvswitch-switch:openvswitch-switch; do
        case " ${missing[*]} " in
            *" ${pair%%:*} "*) systemctl disable --quiet "${pair##*:}" 2> /dev/null || true ;;
        esac
    done
}

if [ ${#missing[@]} -gt 0 ] || [ ${#missing_backports[@]} -gt 0 ]; then
    if [ "$(id -u)" -ne 0 ]; then echo "install: run this as root to install the packages above" >&2; exit 1; fi
    if ! grep -q '^VERSION_CODENAME=bookworm' /etc/os-release; then
        echo "install: this is made for Debian 12; install the packages above by hand and repeat" >&2; exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    keep_services_stopped
    apt-get update -qq
    if [ ${#missing_backports[@]} -gt 0 ]; then
        add_backports
        apt-get install -y -qq --no-install-recommends -t bookworm-backports "${missing_backports[@]}" > /dev/null
    fi
    if [ ${#missing[@]} -gt 0 ]; then
        apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
    fi
    disable_services
    echo "install: all packages are there"
fi

if ! command -v cargo > /dev/null; then
    echo "install: Rust is missing; install the stable toolchain (with clippy and rustfmt) and repeat" >&2; exit 1
fi
if ! command -v cargo-nextest > /dev/null; then
    echo "install: cargo-nextest is missing (test runner); building it takes a few minutes"
    cargo install --quiet --locked cargo-nextest --version '^0.9'
fi
if ! command -v buf > /dev/null; then
    echo "install: buf is missing (lint of the contract, gRPC examples of the documentation)"
    tools=$HOME/.local/share/gpuaas-tools
    /usr/bin/python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check buf-bin==1.75.0
    ln -sf "$tools/bin/buf" "$(dirname "$(command -v cargo)")/buf"
fi
