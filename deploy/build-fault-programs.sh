#!/bin/bash
# Builds the programs that fault tests kill at every step, with the kill points compiled in, into
# target/fault-injection, and leaves the product's programs in target/debug as they are.
set -euo pipefail
cd "$(dirname "$0")/.."
features=gpuaas-agent/fault-injection,gpuaas-allocation/fault-injection
# the same packages as `make build`, so that what they stand on is built with the same features and not again
packages=(--workspace --exclude gpuaas-load-tests)
out=target/fault-injection
mkdir -p $out
# cargo keeps both variants of a crate and only links again, so this is cheap
cargo build --bins "${packages[@]}" --features $features
for program in gpuaas-node-agent gpuaas-allocation; do
    cmp -s target/debug/$program $out/$program && continue
    # a running program cannot be written over, but its name can be given to another file
    cp target/debug/$program $out/.$program
    mv $out/.$program $out/$program
done
cargo build --bins "${packages[@]}"
