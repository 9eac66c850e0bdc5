#!/bin/bash
# Builds the web console into clients/console/dist, from where the gateway serves it. Quick and silent when it is current.
set -euo pipefail
cd "$(dirname "$0")/../clients/console"

# one at a time: an installation begins by removing what is there
exec 9< package-lock.json
flock 9
installed=node_modules/.package-lock.json
if [ ! -e "$installed" ] || [ package-lock.json -nt "$installed" ]; then
    echo "console: installing its libraries"
    npm ci --silent
    touch "$installed"
fi
[ "${1:-}" != libraries ] || exit 0

built=dist/index.html
sources=(src public build index.html package-lock.json vite.config.ts)
if [ -e "$built" ] && [ -z "$(find "${sources[@]}" -newer "$built" -print -quit)" ]; then
    exit 0
fi
echo "console: building"
npm run --silent build -- --logLevel warn
