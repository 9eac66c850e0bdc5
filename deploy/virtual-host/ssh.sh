#!/bin/bash
# Logs into the virtual slice host as root, or runs a command there.
#
# usage: ssh.sh [OPTION...] [COMMAND...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/virtual-host/place.sh
. "$here/place.sh"
# run.sh keeps a connection open; without it this is one of its own
exec ssh -o ControlMaster=no -o "ControlPath=$VIRTUAL_HOST/run/ssh" -p "$ssh_port" -i "$VIRTUAL_HOST/key" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
    -o LogLevel=ERROR -o ConnectTimeout=5 -o ServerAliveInterval=10 -o ServerAliveCountMax=6 -l root 127.0.0.1 "$@"
