#!/bin/bash
# Drives the console in a real Chromium: make test-console. "pages" alone shows every page with a played API, "live" alone
# uses it on a stack of its own. Screenshots stay below .run; with a name for the allocation they are fit for the
# documentation: deploy/test-console.sh live vivid-otter
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/.run/test/console
instance=62
deploy/chromium.sh
part=${1:-all}
if [ "$part" != live ]; then
    node clients/console/e2e/scripted/run.mjs "$folder-screenshots/pages"
fi
[ "$part" != pages ] || exit 0
stack() { target/debug/gpuaas-dev "$1" --root "$folder" --instance "$instance" "${@:2}"; }
trap 'stack down --purge > /dev/null' EXIT
trap 'exit 130' INT TERM
# so that there is something to replay
export GPUAAS__TERMINAL_GATEWAY__RECORDING__DEFAULT=required
# what a run that was killed has left is not what the tests begin with
stack down --purge > /dev/null
stack up --no-slice --no-approval
GPUAAS_STACK=$folder node clients/console/e2e/run.mjs "$(sed -n 's/^api = "\(.*\)"/\1/p' "$folder/profile.toml")" "$folder-screenshots" "${2:-}"
