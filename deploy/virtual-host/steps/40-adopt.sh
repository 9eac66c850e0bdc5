# shellcheck shell=bash
# shellcheck disable=SC2016,SC2154  # the host expands them; step.sh sets them
# A real control plane adopts the host, and its approved devices are bound.

node=virtual-host
card=0000:06:00.0
functions=(0000:06:10.0 0000:06:10.2)
# shellcheck disable=SC2034  # of other steps too
gpus=(0000:01:00.0 0000:02:00.0)
# what a VM may send, and what it may receive, in megabits a second: less than an emulated guest can
# shellcheck disable=SC2034
bandwidth=2

# driver ADDRESS: what a device is bound to
driver() { on "basename \$(readlink /sys/bus/pci/devices/$1/driver) 2> /dev/null" | grep -v '^$' || echo none; }

# The settings of the package's example, with what is marked there changed, for a site without InfiniBand.
functions_made() {
    local services=100.64.$VIRTUAL_HOST_INSTANCE.1 text
    # in its own network: the machine below the host passes connections on to the control plane's addresses
    sed -E "s/^listen = .*/listen = [\"10.0.2.15:7110\", \"127.0.0.1:7110\"]/
        s|^inventory = .*|inventory = \"https://$services:$(port_of HOSTS)\"|
        s|^inventory-enrolment = .*|inventory-enrolment = \"https://$services:$(port_of ENROLMENT)\"|
        s/^advertised_address = .*/advertised_address = \"127.0.0.1:$agent_port\"/" \
        "$checkout/deploy/deb/node-agent.toml" > "$VIRTUAL_HOST/run/node-agent.toml"
    cat >> "$VIRTUAL_HOST/run/node-agent.toml" << TOML

[agent.fabric]
kind = "none"

[agent.fabric.virtual_functions]
"$card" = 2

[agent.network]
vm_bandwidth_mbits = $bandwidth

[agent.update]
source = "oci://$(registry)/lab/node-agent"

[agent.bootstrap]
markers = []
slice_markers = []
slice_validation = ""
TOML
    on 'mkdir -p /etc/gpuaas && cat > /etc/gpuaas/node-agent.toml' < "$VIRTUAL_HOST/run/node-agent.toml"
    on 'cat > /etc/gpuaas/ca.pem' < "$stack/pki/ca.pem"
    on systemctl restart gpuaas-slice-fabric-vfs.service
    on journalctl --no-pager --unit gpuaas-slice-fabric-vfs.service --lines 10
    same "functions" 2 "$(on cat "/sys/bus/pci/devices/$card/sriov_numvfs")"
    for function in "${functions[@]}"; do same "the driver of $function" none "$(driver "$function")"; done
    text=$(on gpuaas-node-agent fabric-vfs | shown)
    nothing_planned "the second run" "$text"
}

# Where inventory hears hosts, and where it enrols them: as the lab host of the same control plane has it.
port_of() {
    local peer=inventory
    [ "$1" = HOSTS ] || peer=inventory-enrolment
    sed -nE "s|^$peer = \"https://.*:([0-9]+)\"|\1|p" "$stack/lab/agent.toml"
}

# Where hosts fetch images and packages.
registry() {
    cli api GET /api/v1/admin/images | jq --raw-output '.images[] | select(.slug == "lab-mini").source_uri' \
        | sed -E 's|^oci://([^/]+)/.*|\1|'
}

enrolled() {
    local token=$VIRTUAL_HOST/run/token
    rm -f "$token"
    cli admin node create --hostname $node --region lab-1
    cli admin node enrol-token $node --out "$token"
    on 'umask 077 && cat > /etc/gpuaas/enrolment-token' < "$token"
    on systemctl enable --now gpuaas-node-agent.service
    until_true 120 "the node is not enrolled" eval 'node_json | jq -e ".node.status.state == \"enrolled\""'
    same "the token is gone" "" "$(on 'ls /etc/gpuaas | grep token || true')"
    on 'test -s /var/lib/gpuaas/tls/cert.pem'
    same "the agent" active "$(on systemctl is-active gpuaas-node-agent.service)"
}

node_json() { cli admin node show $node --output json; }

host_checked() {
    local text status=0
    text=$(on gpuaas-node-agent validate-host --report /root/host.json) || status=$?
    echo "$text" | tee "$VIRTUAL_HOST_LOGS/validate-host.txt"
    has "its kind" "slice host at" "$text"
    on cat /root/host.json > "$VIRTUAL_HOST_LOGS/validate-host.json"
    same "hardware" '{"fabric_devices":1,"gpus":2,"nvme_disks":3,"nvswitches":0,"virtual_functions":2}' \
        "$(jq --compact-output --sort-keys '.hardware | del(.iommu_groups)' "$VIRTUAL_HOST_LOGS/validate-host.json")"
    same "blockers (status $status)" "[]" "$(jq --compact-output .blockers "$VIRTUAL_HOST_LOGS/validate-host.json")"
    text=$(on gpuaas-node-agent parity-check --config /etc/gpuaas/node-agent.toml) || status=$?
    echo "$text" | tee "$VIRTUAL_HOST_LOGS/parity-check.txt"
    lacks "the parity check (status $status)" "status=FAIL" "$text"
}

# Discovers, and prints the candidates with the number of their blockers, a line each.
candidates() {
    cli admin node discover $node --wait --timeout 240 >&2
    cli api GET "/api/v1/admin/nodes/$(node_json | jq -r .node.id)/slice-topology/discovery" | tee "$VIRTUAL_HOST_LOGS/discovery.json" \
        | jq --raw-output '.candidates[] | "\(.slot_index) \(.slot_class) \(.bindings | "\(.gpu_pci_address) \(.nvme_device) \(.fabric_device) \(.fabric_vf_pci_address)") \(.blockers | length)"'
}

discovered() {
    # a disk of the host is in no candidate; slots share the card by its functions
    same "candidates" "0 h200_sxm 0000:01:00.0 /dev/disk/by-id/nvme-eui.0025380000000001 $card 0000:06:10.0 0
1 h200_sxm 0000:02:00.0 /dev/disk/by-id/nvme-eui.0025380000000002 $card 0000:06:10.2 0" \
        "$(candidates)"
    same "slots before an approval" 0 "$(slots_json | jq '.slots | length')"
}

slots_json() { cli admin slot list $node --output json; }
slots_available() { slots_json | jq --exit-status '[.slots[] | select(.status == "available")] | length == 2'; }

approved() {
    cli admin slot approve $node --all
    # the first wipe, by the strongest method that the disk's controller has
    until_true 600 "the slots are not available" slots_available
    cli admin certificate list $node 0
    has "how the disk was wiped" "format_user_data_erase" "$(cli admin certificate list $node 0)"
}
