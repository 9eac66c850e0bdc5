#!/bin/bash
# Builds the web console into clients/console/dist, from where the gateway serves it; the SDK's sources are a part of it.
# Quick and silent when it is current.
set -euo pipefail
cd "$(dirname "$0")/../clients/console"

# one at a time
exec 9< package.json
flock 9
../../deploy/node-libraries.sh

built=dist/index.html
sources=(src public build index.html package.json vite.config.ts ../typescript/src ../typescript/package.json ../package-lock.json)
if [ -e "$built" ] && [ -z "$(find "${sources[@]}" -newer "$built" -print -quit)" ]; then
    exit 0
fi
echo "console: building"
npm run --silent build -- --logLevel warn
