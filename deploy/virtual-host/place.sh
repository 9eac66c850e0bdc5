# shellcheck shell=bash
# Where the virtual slice host is kept, and the loopback ports that lead into it. Sourced by the other scripts.
#
# VIRTUAL_HOST           folder; .run/virtual-host of the checkout when absent
# VIRTUAL_HOST_INSTANCE  number of its control plane, as of `gpuaas-dev --instance`; decides ports
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export VIRTUAL_HOST=${VIRTUAL_HOST:-$checkout/.run/virtual-host}
export VIRTUAL_HOST_INSTANCE=${VIRTUAL_HOST_INSTANCE:-61}
# the last two of the ports for guests of the instance, which has fewer guests
ssh_port=$((22008 + VIRTUAL_HOST_INSTANCE * 10))
agent_port=$((22009 + VIRTUAL_HOST_INSTANCE * 10))
export ssh_port agent_port
mkdir -p "$VIRTUAL_HOST"
