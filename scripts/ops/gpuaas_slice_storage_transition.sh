#!/bin/sh
# Takes approved NVMe disks from the host's use over into slices: unmounts what the approved storage profile names, takes
# it out of fstab, and erases the disks. Without --apply it prints what it would do. ALL DATA ON THE DISKS IS LOST.
#
# usage: scripts/ops/gpuaas_slice_storage_transition.sh [--apply] [--devices DISK,DISK...] [--profile FILE]
set -eu
exec "${GPUAAS_NODE_AGENT:-gpuaas-node-agent}" storage-transition "$@"
