# shellcheck shell=bash
# shellcheck disable=SC2016,SC2154  # the host expands them; step.sh sets them
# What happens beside a slice that runs: the platform updates the host's agent and takes it back, and the switch limits the
# slice's port.

# version_of PACKAGE: what the agent of a package calls itself
version_of() { dpkg-deb --field "$1" Version | sed 's/.*+[0-9]*\.//'; }

# newer_package: the package once more, later, with the same program that calls itself by another commit
newer_package() {
    local package=$VIRTUAL_HOST/package/agent.deb tree=$VIRTUAL_HOST/run/newer old new
    local program=$tree/opt/gpuaas/node-agent/gpuaas-node-agent
    old=$(version_of "$package" | cut -c 1-8)
    new=$(tr 0-9a-f 1-9a-f0 <<< "$old")
    rm -rf "$tree"
    dpkg-deb -R "$package" "$tree"
    LC_ALL=C sed -i "s/$old/$new/g" "$program" "$tree/DEBIAN/control"
    sed -i "s/^Version: [^+]*+/Version: 9.0.0+/" "$tree/DEBIAN/control"
    (cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
    dpkg-deb --root-owner-group -Zgzip --build "$tree" "$VIRTUAL_HOST/package/newer.deb" > /dev/null
    rm -rf "$tree"
    version_of "$VIRTUAL_HOST/package/newer.deb"
}

# Pushes a package where the host's settings say that it comes from.
push_package() {
    "$checkout/target/debug/gpuaas-image-push" --file "$1" --reference "$(registry)/lab/node-agent:$(version_of "$1")" \
        --push-host "127.0.0.1:$(($(registry | cut -d: -f2) + 1))" --ca-file "$stack/pki/ca.pem" \
        --user pusher --password-file "$stack/secrets/registry-push.password"
}

# What an update must leave as it is: the VM, what the guest has run since, and what the host has promised.
untouched() {
    on 'pgrep -f "[g]uest=gpuaas-slice" | xargs -I% sh -c "echo qemu % \$(cut -d\" \" -f22 /proc/%/stat)"'
    guest first 'cat /proc/sys/kernel/random/boot_id; cat /tmp/counter.pid && kill -0 $(cat /tmp/counter.pid)'
    promised
    slots_json | jq --compact-output '.slots[] | {slot_index, status, generation, clean_generation}'
    cli show first --output json | jq --compact-output '.allocation | .id, .status.state, .status.access'
}

# The rows of the agent's journal that bind the slot to its slice.
promised() {
    local copy=$VIRTUAL_HOST/run/journal
    rm -rf "$copy"
    mkdir "$copy"
    on 'cd /var/lib/gpuaas && tar -c journal.sqlite*' | tar -x -C "$copy"
    python3 - "$copy/journal.sqlite" << 'PYTHON'
import sqlite3, sys
journal = sqlite3.connect(sys.argv[1])
for what in ("* FROM holds", "* FROM fences", "lease_id, allocation_id, boot_id FROM leases", "* FROM lease_slots", "* FROM slot_devices"):
    for row in sorted(journal.execute(f"SELECT {what}")):
        print(what.split()[-1], *row)
PYTHON
}

# heard: the host reports; on a busy machine below it, it is late at times, and a rollout passes over a host that is
heard() { node_json | jq --exit-status .node.status.schedulable; }

# rolled_out COMMAND...: begins a rollout with the command, and waits until it has changed the host; prints its id
rolled_out() {
    local id
    until_true 120 "the host does not report" heard
    id=$(cli admin agent-rollout "$@" --output json | jq --raw-output .id)
    until_true 400 "the rollout does not end" eval "cli admin agent-rollout show $id --output json | jq --exit-status '.state != \"running\"'"
    cli admin agent-rollout show "$id" >&2
    same "what the rollout has changed" '["completed",1]' \
        "$(cli admin agent-rollout show "$id" --output json | jq --compact-output '[.state, .succeeded_nodes]')"
    echo "$id"
}

# runs_version VERSION: installed, running and reported
runs_version() {
    has "the installed program" "version=$1 " "$(on gpuaas-node-agent --version)"
    same "the service" active "$(on systemctl is-active gpuaas-node-agent.service)"
    until_true 60 "the host does not report version $1" eval "node_json | jq -e '.node.status.instance.agent_version == \"$1\"' && heard"
    same "what the update has ended" "state=installed" "$(on grep ^state= /var/lib/gpuaas/update/outcome)"
}

# A rollout brings the host's agent to another version and back while a slice runs on it (A-10, D-93, D-94).
agent_rolled_out() {
    local old new before part rollout digest
    old=$(version_of "$VIRTUAL_HOST/package/agent.deb")
    new=$(newer_package)
    push_package "$VIRTUAL_HOST/package/newer.deb"
    # a program of the guest that counts, to see that it goes on
    guest first 'i=0; (while :; do i=$((i + 1)); echo $i > /tmp/counter; sleep 1; done) > /dev/null 2>&1 & echo $! > /tmp/counter.pid'
    digest=$(on sha256sum /opt/gpuaas/node-agent/gpuaas-node-agent | cut -d' ' -f1)
    before=$(untouched | shown)
    # what could not be read would be the same before and after
    for part in "holds " "fences " "slot_devices " slot_index '"active"'; do has "what must stay" "$part" "$before"; done
    rollout=$(rolled_out create --version "$new" --package "$VIRTUAL_HOST/package/newer.deb" --node "$node" \
        --reason "the test of the virtual host")
    runs_version "$new"
    same "the replaced program is kept" "$digest" "$(on sha256sum '/opt/gpuaas/node-agent/gpuaas-node-agent.backup-*' | cut -d' ' -f1)"
    same "the update changed what runs" "$before" "$(untouched)"
    counts
    agreed
    rolled_out rollback "$rollout" --reason "back again"
    runs_version "$old"
    same "the program of before" "$digest" "$(on sha256sum /opt/gpuaas/node-agent/gpuaas-node-agent | cut -d' ' -f1)"
    same "the way back changed what runs" "$before" "$(untouched)"
    counts
    agreed
}

# The guest's program goes on.
counts() {
    local before
    before=$(guest first cat /tmp/counter)
    until_true 60 "the guest has stopped counting at $before" eval '[ "$(guest first cat /tmp/counter)" -gt '"$before"' ]'
}

# port_of_slice: the only guest's port on the switch
port_of_slice() { on 'ovs-vsctl list-ports ovsbr0 | grep ^gs | grep -v gsprobe'; }

# now: of the clock that no change moves, in milliseconds
now() { awk '{ printf "%d", $1 * 1000 }' /proc/uptime; }

# Each prints bits in a second of a transfer, once the first two megabytes have passed, which a port lets through at once; 0 when
# it broke off.
sent() {
    local first=2000000 counted=$1 begun got took
    # a stream that ends by itself: nothing tells every sshd of a guest that nobody reads any more
    guest first "head -c $((first + counted + 500000)) /dev/zero" | {
        head -c $first > /dev/null
        begun=$(now)
        got=$(head -c "$counted" | wc -c)
        took=$(($(now) - begun))
        cat > /dev/null
        echo $((got == counted && took > 0 ? counted * 8000 / took : 0))
    }
}
received() {
    local first=2000000 counted=$1 times
    times=$(head -c $((first + counted + 1000000)) /dev/zero | guest first "head -c $first > /dev/null; cut -d' ' -f1 /proc/uptime; \
        head -c $counted > /dev/null; cut -d' ' -f1 /proc/uptime; cat > /dev/null")
    awk -v bytes="$counted" 'NR == 1 { begun = $1 } END { took = $1 - begun; printf "%d\n", (took > 0 ? bytes * 8 / took : 0) }' <<< "$times"
}

# held WHAT RATE: it is in use, and within the limit; what a port lets through at once is in what is counted too
held() {
    local share=$(($2 * 100 / (bandwidth * 1000000)))
    echo "$1: $2 bit/s, $share % of the limit"
    [ $share -le 115 ] || fail "$1 is not held at the limit: $share % of it"
    [ $share -ge 30 ] || fail "$1 is far below the limit, so that nothing is shown: $share % of it"
}
# beyond WHAT RATE: without the limit it is more than with it
beyond() {
    local share=$(($2 * 100 / (bandwidth * 1000000)))
    echo "$1 without a limit: $2 bit/s, $share % of it"
    [ $share -ge 150 ] || fail "$1 is slow without a limit too: $share % of it"
}

# limited: the switch has the limit of the host's settings on the slice's port, in both directions (D-60)
limited() {
    local port qos row
    port=$(port_of_slice)
    # what the guest sends enters the switch, and what it receives leaves it
    same "what it may send" $((bandwidth * 1000)) "$(on ovs-vsctl get interface "$port" ingress_policing_rate)"
    qos=$(on ovs-vsctl get port "$port" qos)
    same "the kind of its limit" linux-htb "$(on ovs-vsctl get qos "$qos" type)"
    for row in "qos $qos" "queue $(on ovs-vsctl get qos "$qos" queues:0)"; do
        same "what it may receive, in its $row" "\"$((bandwidth * 1000000))\"" "$(on ovs-vsctl get "$row" other_config:max-rate)"
    done
}

# The kernel's switch holds the slice's port at that (D-60, J-22).
bandwidth_held() {
    local port qos
    limited
    port=$(port_of_slice)
    qos=$(on ovs-vsctl get port "$port" qos)
    on tc -statistics class show dev "$port"
    # a port drops what is too fast, and what came behind a lost packet is read at once when that has come: half a megabyte,
    # which counts little in so many
    held "what the guest sends" "$(sent 6000000)"
    held "what the guest receives" "$(received 1500000)"
    on ovs-vsctl set interface "$port" ingress_policing_rate=0 -- clear port "$port" qos
    beyond "what the guest sends" "$(sent 1500000)"
    beyond "what the guest receives" "$(received 1500000)"
    on ovs-vsctl set interface "$port" ingress_policing_rate=$((bandwidth * 1000)) -- set port "$port" "qos=$qos"
    held "what the guest receives again" "$(received 500000)"
}

# Rows of limits that the switch's database has.
limits() { on 'for table in qos queue; do ovs-vsctl --bare --columns=_uuid list $table; done; ovs-vsctl --bare --columns=name find interface "ingress_policing_rate>0"'; }
