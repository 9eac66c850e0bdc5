#!/bin/sh
# Repairs the guests' network after a restart: bridge, address, dnsmasq, NAT, forwarding, the link to a BlueField card.
# Makes no virtual functions and sets no QoS. As root; again: changes nothing. `--dry-run` prints the plan.
#
# usage: scripts/ops/gpuaas_slice_host_net_baseline.sh [--dry-run]
# GPUAAS_SLICE_MANAGE_SYSTEMD=0    leave services alone: how the unit gpuaas-slice-network-baseline runs it
# GPUAAS_SLICE_NETWORK_TUNING=1    the tuning profile of the host's network
set -eu
exec "${GPUAAS_NODE_AGENT:-gpuaas-node-agent}" net-baseline "$@"
