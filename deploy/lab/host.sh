#!/bin/bash
# The first program of the lab host: starts what a GPU node's systemd would start, in that order, then keeps the agent
# running. Runs inside sandbox.sh; ending it ends the host.
#
# usage: host.sh RUN_DIR LINK_ADDRESS SSH_PORT_BASE SLOTS AGENT_BINARY AGENT_CONFIG
set -euo pipefail
run=$1 link=$2 ssh_base=$3 slots=$4 agent=$5 config=$6
bridge=ovsbr0
gateway=10.100.0.1

# wait_for WHAT COMMAND...: until the command succeeds, 30 s at most
wait_for() {
    local what=$1 deadline=$((SECONDS + 30)); shift
    until "$@" > /dev/null 2>&1; do
        if [ $SECONDS -ge $deadline ]; then echo "host: $what did not become ready" >&2; exit 1; fi
        sleep 0.05
    done
}

no_switch() {
    [ ! -e /sys/class/net/$bridge ]
}

switch_up() {
    # of the sandbox before this one, whose programs may end later than itself
    wait_for "the removal of the earlier switch" no_switch
    ovsdb-tool create /etc/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema
    ovsdb-server /etc/openvswitch/conf.db --remote=punix:/run/openvswitch/db.sock --pidfile --detach --no-chdir \
        --log-file=/var/log/openvswitch/ovsdb-server.log
    ovs-vsctl --no-wait init
    ovs-vswitchd --pidfile --detach --no-chdir --log-file=/var/log/openvswitch/ovs-vswitchd.log
    # userspace datapath: the kernel's is not there on every machine
    ovs-vsctl --timeout=20 add-br $bridge -- set bridge $bridge datapath_type=netdev
    ip addr add $gateway/24 dev $bridge
    ip addr add 169.254.169.254/32 dev $bridge
    ip link set $bridge up
}

# Guests get out by masquerade and in by one forwarded port each. What they may reach, the agent's own rules say.
nat_up() {
    local index
    echo 1 > /proc/sys/net/ipv4/ip_forward
    {
        echo "table ip gpuaas {"
        echo "  chain prerouting { type nat hook prerouting priority dstnat;"
        for ((index = 0; index < slots; index++)); do
            echo "    ip daddr $link tcp dport $((ssh_base + index)) dnat to 10.100.0.$((10 + index)):22"
        done
        echo "  }"
        echo "  chain postrouting { type nat hook postrouting priority srcnat;"
        echo "    ip saddr 10.100.0.0/24 oifname != \"$bridge\" masquerade"
        echo "  }"
        echo "}"
    } | nft -f -
}

dhcp_up() {
    mkdir -p "$run/dnsmasq.d"
    dnsmasq --conf-file=/dev/null --no-resolv --no-hosts --port=0 --bind-interfaces --interface=$bridge \
        --except-interface=lo --dhcp-range=10.100.0.0,static,255.255.255.0,1h --dhcp-hostsdir="$run/dnsmasq.d" \
        --dhcp-leasefile="$run/dnsmasq.leases" --dhcp-option=option:router,$gateway --dhcp-authoritative --no-ping --dhcp-ignore-clid \
        --user=root --pid-file="$run/dnsmasq.pid" --log-dhcp --log-facility="$run/dnsmasq.log"
}

libvirt_up() {
    virtlogd -d -p /run/libvirt/virtlogd.pid
    libvirtd -d -p /run/libvirt/libvirtd.pid
    wait_for libvirtd virsh -q -c qemu:///system version
}

switch_up
nat_up
dhcp_up
# guests that powered off with the host are started again by the platform
libvirt_up
touch "$run/ready"
echo "host: ready"

# as systemd would: Restart=always, one second apart
trap 'exit 0' TERM
while :; do
    # variables, one per line, that may change between two starts of the agent
    environment=()
    [ ! -f "$run/agent.env" ] || mapfile -t environment < "$run/agent.env"
    # as its unit does
    env MALLOC_ARENA_MAX=2 "${environment[@]}" "$agent" --config "$config" &
    wait $! || echo "host: the agent ended with status $?; starting it again" >&2
    sleep 1
done
