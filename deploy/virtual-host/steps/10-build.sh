# shellcheck shell=bash
# shellcheck disable=SC2016,SC2154  # the host expands them; step.sh sets them
# What is built on this machine, and the control plane that runs on it.

gpuaas=$checkout/target/debug/gpuaas
stack=$VIRTUAL_HOST/stack

build_host() { "$here/build.sh"; }

# The time of the commit is that of the build, so that the same commit is built once.
build_package() {
    local package
    rm -rf "$VIRTUAL_HOST/package"
    package=$(cd "$checkout" && SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) deploy/deb/build.sh "$VIRTUAL_HOST/package")
    echo "$package"
    cp "$package" "$VIRTUAL_HOST/package/agent.deb"
}

control() { "$checkout/target/debug/gpuaas-dev" "$1" --root "$stack" --instance "$VIRTUAL_HOST_INSTANCE" "${@:2}"; }

build_stack() {
    "$here/off.sh"
    # the host is a new one, so it is also to its control plane
    control down --purge
    control up --no-slice
}

end_stack() { control down > /dev/null; }

cli() { GPUAAS_PROFILE_FILE=$stack/profile.toml "$gpuaas" "$@"; }
