# shellcheck shell=bash
# shellcheck disable=SC2016,SC2154  # the host expands them; step.sh sets them
# Slices on the host: a VM below the VM, with a GPU and a function by VFIO and the slot's disk.

sku=virtual-slice
guest_image=virtual-mini
user_key=$VIRTUAL_HOST/run/user

# slot INDEX FILTER: what the platform has of a slot
slot() { slots_json | jq --raw-output ".slots[$1] | $2"; }
# state NAME: of an allocation
state() { cli show "$1" --output json | jq --raw-output .allocation.status.state; }

# What a site offers on such a host: the profile of the machine, from hugepages, and the mini guest with its checks.
catalogued() {
    local project source
    cli admin sku set $sku --slot-class h200_sxm --gpu-counts 1,2 --profile virtual_1c_1g --vcpus 1 --memory 1024 --hugepages
    cli admin price create --sku $sku --amount "1 USD"
    project=$(cli project list --output json | jq --raw-output 'first(.. | .id? // empty)')
    cli admin quota set "$project" $sku --max-gpus 2
    source=$(cli api GET /api/v1/admin/images | jq --raw-output '.images[] | select(.slug == "lab-mini").source_uri')
    cat > "$VIRTUAL_HOST/run/checks.json" << 'JSON'
[{"name": "gpus", "command": "grep -l 0x10de /sys/bus/pci/devices/*/vendor", "line_per_gpu": true},
 {"name": "fabric", "command": "grep -l 0x15b3 /sys/bus/pci/devices/*/vendor", "min_lines": 1}]
JSON
    cli admin image create $guest_image --source "$source" --sku $sku --boot-timeout 900 \
        --readiness-checks "$VIRTUAL_HOST/run/checks.json"
    rm -f "$user_key"*
    ssh-keygen -q -t ed25519 -N '' -f "$user_key"
    until_true 60 "the SKU is not offered" eval "cli availability --output json | jq -e '[.. | objects | select(.sku? == \"$sku\") \
        | .fits // 0] | add > 0'"
}

# access NAME MEMBER: how its user reaches an allocation
access() { cli show "$1" --output json | jq --raw-output ".allocation.status.access.$2"; }

# guest NAME COMMAND...: by SSH, through the host, since its guests have private addresses
guest() {
    local address
    address=$(access "$1" private_ip)
    ssh -i "$user_key" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=60 \
        -o "ProxyCommand=$here/ssh.sh -W $address:22" "$(access "$1" guest_user)@$address" "${@:2}"
}

# The description of the only domain.
domain() { on 'virsh -c qemu:///system dumpxml $(virsh -c qemu:///system list --all --name)'; }

launched() {
    timeout 1100 "$gpuaas" --profile-file "$stack/profile.toml" launch --sku $sku --image $guest_image --ssh-key "$user_key.pub" \
        --name first --wait
    same "its state" active "$(state first)"
    cli show first
    on virsh -c qemu:///system list
    # what it was given is what was approved for one slot
    domain=$(domain)
    has "its memory (D-53)" "<hugepages" "$domain"
    has "its machine (D-47)" "<hostdev mode='subsystem' type='pci' managed='yes'" "$domain"
    has "its disk, that of the first slot" "<source dev='/dev/$(disk 1)'" "$domain"
    has "its port" "<virtualport type='openvswitch'" "$domain"
}

# In the guest: its devices, and no other disk than its own.
logged_in() {
    local vendors
    vendors=$(guest first 'cat /sys/bus/pci/devices/*/vendor')
    same "GPUs in the guest" 1 "$(grep -c 0x10de <<< "$vendors")"
    same "functions in the guest" 1 "$(grep -c 0x15b3 <<< "$vendors")"
    same "disks in the guest" vda "$(guest first ls /sys/block | grep -v '^loop\|^ram\|^sr' | xargs)"
    guest first 'cat /proc/uptime; ip address show'
}

# The host is started again with other names of its disks while the slice is stopped, and the slice has its disk again.
stopped_and_started() {
    cli stop first --wait --timeout 600
    same "domains that run" "" "$(on virsh -c qemu:///system list --name | xargs)"
    restart "2 1 3"
    same "names" "nvme1n1 nvme0n1 nvme2n1" "$(disk 1) $(disk 2) $(disk 3)"
    until_true 180 "the host does not report" eval 'node_json | jq -e ".node.status.schedulable == true"'
    cli start first --wait --timeout 1100
    same "its state" active "$(state first)"
    # the disk of its slot, under the name that it has now
    has "its disk" "<source dev='/dev/$(disk 1)'" "$(domain)"
    limited
    guest first 'cat /proc/uptime'
}

# released NAME: nothing of it is left, and its wipe has a certificate that counts without the platform
released() {
    local name=${1:-first} id logged folder=$VIRTUAL_HOST/run/certificates
    id=$(cli show "$name" --output json | jq --raw-output .allocation.id)
    timeout 1100 "$gpuaas" --profile-file "$stack/profile.toml" release "$name" --wait
    nothing_left "$id"
    logged=$(on journalctl --no-pager --unit gpuaas-node-agent.service --grep "is.reset")
    has "the reset of its GPU" "${gpus[0]} is reset" "$logged"
    has "the reset of its function" "${functions[0]} is reset" "$logged"
    rm -rf "$folder"
    mkdir "$folder"
    cli certificate "$id" --folder "$folder"
    for file in "$folder"/*; do cli admin certificate verify --ca "$stack/pki/host-root.pem" "$file"; done
}

# Ledger, host and hypervisor agree that nobody has a slot.
agreed() {
    cli admin audit ledger
    cli admin node compare "$node"
    same "verdicts" "" "$(cli admin node compare "$node" --output json | jq --raw-output '.rows[].verdict' | grep -v '^agrees$' | xargs)"
}

nothing_left() {
    until_true 900 "the slots are not available again" slots_available
    same "domains" "" "$(on virsh -c qemu:///system list --all --name | xargs)"
    same "ports" "ovsbr0" "$(on 'ls /sys/class/net' | grep -v '^lo$\|^en\|^ovs-system$\|^gsprobe$' | xargs)"
    same "reservations" "" "$(on 'ls /etc/dnsmasq.d/gpuaas-hosts | grep -v probe || true')"
    same "limits of ports (D-60)" "" "$(limits | xargs)"
    same "hugepages are free" 1 "$(on cat /sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages)"
    all_bound
    agreed
}
