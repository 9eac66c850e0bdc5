#!/bin/bash
# Installs the libraries of the clients in TypeScript, the console and the SDK. Quick and silent when they are current.
set -euo pipefail
cd "$(dirname "$0")/../clients"

# one at a time: an installation begins by removing what is there
exec 9< package-lock.json
flock 9
installed=node_modules/.package-lock.json
[ ! -e "$installed" ] || [ package-lock.json -nt "$installed" ] || exit 0
echo "clients: installing the libraries of the console and the TypeScript SDK"
# of checkouts in which each had its own
rm -rf console/node_modules typescript/node_modules
npm ci --silent
touch "$installed"
