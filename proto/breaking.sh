#!/bin/bash
# Compares the contract with that of the last release: what users and hosts of the field rely on must not change.
set -euo pipefail
cd "$(dirname "$0")/.."

release=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2> /dev/null || true)
if [ -z "$release" ]; then
    echo "breaking: no release is tagged yet, so there is no contract to keep"
    exit 0
fi
if ! git cat-file -e "$release:proto/buf.yaml" 2> /dev/null; then
    echo "breaking: release $release has no contract in proto"
    exit 0
fi
# unpacked, since a clone may be shallow or a worktree, which buf does not read
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
git archive "$release" proto | tar -x -C "$before"
buf breaking proto --against "$before/proto"
echo "breaking: nothing that release $release offered has changed"
