# shellcheck shell=bash
# shellcheck disable=SC2016,SC2154  # the host expands them; step.sh sets them
# Slices on the host: a VM below the VM, with a GPU and a function by VFIO and the slot's disk.

sku=virtual-slice
guest_image=virtual-mini
user_key=$VIRTUAL_HOST/run/user

# slot INDEX FILTER: what the platform has of a slot
slot() { slots_json | jq --raw-output ".slots[$1] | $2"; }
# state NAME: of an allocation
state() { cli show "$1" --output json | jq --raw-output .status.state; }

# What a site sells on such a host: the profile of the machine, from hugepages, and the mini guest with its checks.
catalogued() {
    local project source
    cli admin sku put $sku --slot-class h200_sxm --gpu-counts 1,2 --profile virtual_1c_1g --vcpus 1 --memory 1024 --hugepages
    cli admin price create --sku $sku --amount "1 USD"
    project=$(cli project list --output json | jq --raw-output 'first(.. | .id? // empty)')
    cli admin quota put "$project" $sku --max-gpus 2
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

# guest NAME COMMAND...: by SSH, through the host, since its guests have private addresses
guest() {
    local address user=$1
    address=$(cli show "$1" --output json | jq --raw-output '.. | .private_ip? // empty' | head -n 1)
    user=$(cli show "$1" --output json | jq --raw-output '.. | .ssh_user? // empty' | head -n 1)
    ssh -i "$user_key" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=20 \
        -o "ProxyCommand=$here/ssh.sh -W $address:22" "${user:-ubuntu}@$address" "${@:2}"
}

launched() {
    timeout 1100 "$gpuaas" --profile-file "$stack/profile.toml" launch --sku $sku --image $guest_image --ssh-key "$user_key.pub" \
        --name first --wait
    same "its state" active "$(state first)"
    cli show first
    on virsh -c qemu:///system list
    # what it was given is what was approved for one slot
    domain=$(on 'virsh -c qemu:///system dumpxml $(virsh -c qemu:///system list --name)')
    has "its memory (D-53)" "<hugepages" "$domain"
    has "its machine (D-47)" "<hostdev mode='subsystem' type='pci' managed='yes'" "$domain"
    has "its disk" "/dev/disk/by-id/nvme-eui.002538000000000" "$domain"
    has "its port" "<virtualport type='openvswitch'" "$domain"
}
