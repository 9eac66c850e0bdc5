# shellcheck shell=bash
# shellcheck disable=SC2154  # step.sh sets them
# The power fails at the worst moments. What the kernel had flushed to a disk is on it afterwards, and nothing else counts.

# runs ALLOCATION STEP: the step has begun and has not ended
runs() {
    cli show "$1" --output json | jq --exit-status \
        "[.timeline[] | select(.step == \"$2\")] | last | . != null and .state != \"done\""
}

# cut_at ALLOCATION STEP: cuts the power of the host in that step
cut_at() {
    local deadline=$((SECONDS + 600))
    until runs "$1" "$2" > /dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || fail "$2 did not begin"
    done
    "$here/off.sh"
    cli show "$1"
    runs "$1" "$2" || fail "$2 had ended before the power was cut"
}

# resumed ALLOCATION STEP: the agent of this start found the operation in that step: neither it nor one after it was done
resumed() {
    on journalctl --boot --unit gpuaas-node-agent --output cat | grep "resume operation" | grep "$1" | grep "\<step\W*$2\>" \
        || fail "the host had not been in $2 of $1 when its power was cut"
}

# as it was: the same arguments, the same disks
power_on() {
    VIRTUAL_HOST_ARGUMENTS=$(cat "$VIRTUAL_HOST/run/arguments") "$here/run.sh"
    until_true 240 "the host does not report" eval 'node_json | jq -e ".node.status.schedulable == true"'
}

# A launch that was cut in the copy of its image ends, one way or the other, and its slot is proven empty before it is allocated.
cut_in_clone() {
    local id
    "$gpuaas" --profile-file "$stack/profile.toml" launch --sku "$sku" --image "$guest_image" --ssh-key "$user_key.pub" --name second
    id=$(cli show second --output json | jq --raw-output .allocation.id)
    cut_at "$id" provision.clone
    power_on
    resumed "$id" clone
    until_true 1100 "the launch does not end" eval 'cli show '"$id"' --output json | jq -e ".allocation.status.state \
        | . == \"active\" or . == \"failed\""'
    cli show "$id"
    agreed
    if [ "$(state "$id")" = active ]; then
        cli release "$id" --wait
    else
        for index in 0 1; do
            [ "$(slot $index .status)" != cleanup_blocked ] || cli admin slot repair "$node" $index --reason "power was lost in its launch"
        done
    fi
    nothing_left
}

# The first wipe of a slot's next use, cut in its middle: it is begun again, and the slot is not allocated before it ended.
cut_in_wipe() {
    local id
    timeout 1100 "$gpuaas" --profile-file "$stack/profile.toml" launch --sku "$sku" --image "$guest_image" \
        --ssh-key "$user_key.pub" --name third --wait
    id=$(cli show third --output json | jq --raw-output .allocation.id)
    cli release "$id"
    cut_at "$id" release.wipe
    power_on
    resumed "$id" wipe
    nothing_left
    same "its state" released "$(state "$id")"
}
