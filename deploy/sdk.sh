#!/bin/bash
# The SDKs of clients/python and clients/typescript: their tools, generated files, checks, tests and packages.
#
# usage: sdk.sh libraries|generate|check|test|build
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/target/sdk

# Installs what the SDKs are checked and built with; quick and silent when it is current.
libraries() {
    if [ ! -e "$tools/stamp" ] || [ clients/python/requirements-dev.txt -nt "$tools/stamp" ]; then
        echo "sdk: installing the tools of the Python SDK"
        /usr/bin/python3 -m venv --clear "$tools/venv"
        "$tools/venv/bin/pip" install --quiet --disable-pip-version-check -r clients/python/requirements-dev.txt
        touch "$tools/stamp"
    fi
    deploy/node-libraries.sh
}

python() { (cd clients/python && PYTHONDONTWRITEBYTECODE=1 "$tools/venv/bin/python" "$@"); }
typescript() { (cd clients/typescript && npm run --silent "$@"); }

case ${1:?usage: sdk.sh libraries|generate|check|test|build} in
libraries)
    libraries
    ;;
generate)
    libraries
    python -m generate
    typescript generate
    ;;
check)
    libraries
    python -m generate --check
    python -m ruff check --quiet .
    python -m ruff format --quiet --check .
    python -m mypy
    typescript check
    ;;
test)
    libraries
    python -m pytest
    typescript test -- --reporter dot
    ;;
build)
    libraries
    rm -rf "$tools/dist"
    mkdir -p "$tools/dist"
    python -m hatchling build -t wheel -d "$tools/dist"
    typescript build
    (cd clients/typescript && npm pack --silent --ignore-scripts --pack-destination "$tools/dist")
    ;;
*)
    echo "sdk: no step is called $1" >&2
    exit 2
    ;;
esac
