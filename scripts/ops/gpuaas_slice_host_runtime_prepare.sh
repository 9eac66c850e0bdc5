#!/bin/sh
# Prepares the runtime of a host in slice mode: stops host services that hold GPUs, opens libvirt's folder to the
# hypervisor's user, removes reservations of VMs that are gone. As root; again: changes nothing. `--dry-run` prints the plan.
#
# usage: scripts/ops/gpuaas_slice_host_runtime_prepare.sh [--dry-run] [--mode slice]
set -eu
exec "${GPUAAS_NODE_AGENT:-gpuaas-node-agent}" runtime-prepare "$@"
