#!/bin/sh
# What a slice host must show before it is trusted, as a report that can be attached to its node. As root.
#
# usage: scripts/ops/gpuaas_h200_host_image_validate.sh [--report FILE]
set -eu
exec "${GPUAAS_NODE_AGENT:-gpuaas-node-agent}" validate-host "$@"
