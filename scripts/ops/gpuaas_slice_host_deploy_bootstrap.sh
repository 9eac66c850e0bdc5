#!/bin/sh
# Makes an installed Ubuntu capable of slices: packages, kernel arguments, VFIO modules, libvirt, units. Marks nothing
# schedulable. For cloud-init, MAAS userdata or an operator, as root; again: changes nothing. `--dry-run` prints the plan.
#
# usage: scripts/ops/gpuaas_slice_host_deploy_bootstrap.sh [--dry-run] [--mode slice]
# GPUAAS_SLICE_REBOOT_IF_REQUIRED=1   restart the host where kernel arguments changed
# GPUAAS_SLICE_INSTALL_PACKAGES=0     the image has the packages
# GPUAAS_SLICE_HUGEPAGES_1G=512       reserve so many hugepages of 1 GiB at boot
# GPUAAS_SLICE_NETWORK_TUNING=1       the tuning profile of the host's network
# GPUAAS_SLICE_LIMIT_DISK_ASSEMBLY=0  the site keeps LVM and mdadm from the disks of slots
# GPUAAS_NODE_AGENT_DEB=FILE          install the agent from this package first, where it is missing
set -eu
agent=${GPUAAS_NODE_AGENT:-gpuaas-node-agent}
if [ -n "${GPUAAS_NODE_AGENT_DEB:-}" ] && ! command -v "$agent" > /dev/null; then
    DEBIAN_FRONTEND=noninteractive apt-get install --yes "$GPUAAS_NODE_AGENT_DEB"
fi
exec "$agent" deploy-bootstrap "$@"
