#!/bin/sh
# Whether a host is what a slice host must be, after every deployment or reimage. One line per condition, a summary, and
# status 1 when a condition fails. `--help` names the flags; without --host it checks the host it runs on.
#
# usage: scripts/ops/gpuaas_slice_host_parity_check.sh [--host HOST --user USER]
#            [--api-base URL --api-token-file FILE --node-id ID]
set -eu
exec "${GPUAAS_NODE_AGENT:-gpuaas-node-agent}" parity-check "$@"
