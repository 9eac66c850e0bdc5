# shellcheck shell=bash
# shellcheck disable=SC2016,SC2154  # the host expands them; step.sh sets them
# The host as installed, and the agent's package on it.

# Everything below etc, units and their state, interfaces, modules. Not whether libvirt runs: Debian's ends by itself after two
# minutes in which nobody asked it anything, and its sockets start it again.
host_state() {
    on 'find /etc -xdev ! -name ".*" \( -type d -printf "%p %m\n" -o -printf "%p %y %m %s %T@ %l\n" \) | sort
        systemctl list-units --all --no-legend --plain --type=service,socket,mount | awk "{ print \$1, \$3 }" \
            | grep -v "^user\|^systemd-\|^ssh\|^libvirtd.service" | sort
        systemctl list-unit-files --no-legend | awk "{ print \$1, \$2 }" | grep -v "^session-" | sort
        ip -brief link; lsmod | cut -d" " -f1 | sort'
}

first_start() {
    VIRTUAL_HOST_FRESH=1 "$here/run.sh"
    # what its operator has on it before it becomes a slice host: data on two of the disks, one of which is to be given up
    on 'set -e
        disk() { echo /dev/disk/by-id/nvme-eui.002538000000000$1; }
        parted -s "$(disk 2)" mklabel gpt mkpart share ext4 1MiB 100%
        udevadm settle
        mkfs.ext4 -q "$(disk 2)-part1"
        mkfs.ext4 -q "$(disk 3)"
        mkdir -p /share2 /scratch
        echo "$(disk 2)-part1 /share2 ext4 defaults,nofail 0 2" >> /etc/fstab
        echo "$(disk 3) /scratch ext4 defaults,nofail 0 2" >> /etc/fstab
        systemctl daemon-reload
        mount /share2
        mount /scratch
        echo precious > /scratch/file
        echo old > /share2/file'
}

package_installed() {
    local before after version state
    before=$(host_state)
    "$here/ssh.sh" 'cat > /root/agent.deb' < "$VIRTUAL_HOST/package/agent.deb"
    on 'DEBIAN_FRONTEND=noninteractive dpkg --install /root/agent.deb'
    after=$(host_state)
    # units and defaults of the package itself
    same "the package changed the host" "$(grep -v gpuaas <<< "$before")" "$(grep -v gpuaas <<< "$after")"
    on 'test -x /opt/gpuaas/node-agent/gpuaas-node-agent' # D-92
    version=$(on gpuaas-node-agent --version)
    has "its build" "version=$(cd "$checkout" && git rev-parse --short=8 HEAD)" "$version"
    state=$(on systemctl show --property=LoadState,ActiveState,UnitFileState gpuaas-node-agent.service) # D-94
    same "the unit" "LoadState=loaded
ActiveState=inactive
UnitFileState=disabled" "$state"
    for unit in fabric-vfs vfio-devices ovs-bridge network-baseline; do
        same "the unit $unit" disabled "$(on systemctl is-enabled gpuaas-slice-$unit.service || true)"
    done
    # without its settings it does not start, and says so without a failure
    on systemctl start gpuaas-node-agent.service
    same "the agent without settings" inactive "$(on systemctl is-active gpuaas-node-agent.service || true)"
}
