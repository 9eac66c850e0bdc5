#!/bin/sh
# Brings the node agent of this host to the version in the file "request", which the agent has written for an update of
# the platform's rollout, and goes back to the version before when the new agent is not ready in time. VMs run on, and the
# journal stays as it is. Run again after a power loss, it goes on; run again after its end, it changes nothing.
#
# GPUAAS_UPDATE_READY_SECONDS: time for a new agent from its start to its first answered heartbeat, 180 unless given
# GPUAAS_UPDATE_ROOT: a folder that plays the host's root, for tests
set -eu
umask 077
export LC_ALL=C
name=gpuaas-node-agent
unit=gpuaas-node-agent.service
root=${GPUAAS_UPDATE_ROOT:-}
limit=${GPUAAS_UPDATE_READY_SECONDS:-180}
program=opt/gpuaas/node-agent/$name

# backups: the programs that upgrades have replaced (preinst), the last one first; their names sort by time
backups() { for file in "$root/$program".backup-*; do [ ! -f "$file" ] || echo "$file"; done | sort -r; }
# state_folder: the one that the agent's settings name (agent.state_dir). A program of before answers where the new one does not
# run; one from before this command answers nothing, and the folder is the usual one.
state_folder() {
    for one in "$root/$program" $(backups); do
        DPKG_ROOT=$root "$root/usr/share/$name/gpuaas_node_agent_as_service.sh" "$one" state-dir && return
    done
    echo "$name: no program of the agent names its state folder: this is /var/lib/gpuaas" >&2
    echo /var/lib/gpuaas
}
state=$root$(state_folder)
folder=$state/update
# begun with every start of the agent, so that a power loss in the middle is taken up also when the new agent cannot
[ -f "$folder/request" ] || exit 0
# not below /tmp, where a host may run no programs; what a power loss has left is removed
rm -rf "$folder"/work.*
work=$(mktemp -d "$folder/work.XXXXXX")
trap 'rm -rf "$work"' EXIT

# field NAME FILE
field() { sed -n "s/^$1=//p" "$2" 2> /dev/null | head -n 1; }
# put FILE: its new content is on standard input; it is replaced as a whole
put() {
    cat > "$1.new"
    sync "$1.new"
    mv "$1.new" "$1"
}
packages() {
    if [ -n "$root" ]; then
        dpkg --root="$root" --log=/dev/null --force-script-chrootless --force-not-root "$@"
    else
        dpkg "$@"
    fi
}
query() { dpkg-query --admindir="$root/var/lib/dpkg" "$@"; }
installed() {
    # shellcheck disable=SC2016 # a field of dpkg-query
    query --show --showformat='${Version}' $name
}

rollout=$(field rollout "$folder/request")
attempt=$(field attempt "$folder/request")
action=$(field action "$folder/request")
version=$(field version "$folder/request")
digest=$(field digest "$folder/request")
size=$(field size "$folder/request")
turn="$rollout $attempt"

# outcome STATE REASON: and the end
outcome() {
    printf 'rollout=%s\nattempt=%s\nstate=%s\nreason=%s\n' "$rollout" "$attempt" "$1" \
        "$(printf %s "$2" | tr '\n\r\t' '   ' | cut -c 1-400)" | put "$folder/outcome"
    echo "$name: update to $version is $1${2:+: $2}"
    exit 0
}
# nothing of the host was changed yet
refuse() { outcome failed "$1"; }

if [ "$(field rollout "$folder/outcome") $(field attempt "$folder/outcome")" = "$turn" ]; then
    echo "$name: this update has ended"
    exit 0
fi
# each is used as an argument below
case $rollout in '' | *[!0-9a-f-]*) echo "$name: the request names no rollout" >&2; exit 1 ;; esac
case $attempt in '' | *[!0-9]*) echo "$name: the request names no attempt" >&2; exit 1 ;; esac
case $version in '' | *[!0-9A-Za-z.+_-]*) refuse "the version is malformed" ;; esac

# is_ready VERSION: whether an agent of this version gets an answer in time
is_ready() {
    waited=0
    until [ "$(cat "$folder/ready" 2> /dev/null)" = "$1" ]; do
        [ "$waited" -lt "$limit" ] || return 1
        waited=$((waited + 1))
        sleep 1
    done
}
# unpack FILE FOLDER: the program of a package
unpack() {
    mkdir -p "$2"
    dpkg-deb --fsys-tarfile "$1" | tar --extract --directory="$2" "./$program"
}
# version_of FILE: what the agent of a package calls itself
version_of() { dpkg-deb --field "$1" Version | sed 's/.*+[0-9]*\.//'; }

# lacks FILE: what the package needs and this host has not, as dpkg reports it; nothing when it has all of it. dpkg looks at a
# copy of its list in which the package is unpacked, and changes nothing. Nobody brings what is missing during a rollout: dpkg
# would replace the agent by one that is not configured and may not start.
lacks() {
    list=$work/list
    rm -rf "$list"
    mkdir -p "$list/info" "$list/updates" "$list/triggers" || return 1
    if [ -f "$root/var/lib/dpkg/arch" ]; then cp "$root/var/lib/dpkg/arch" "$list/arch" || return 1; fi
    awk -v RS= -v ORS='\n\n' "!/^Package: $name\n/" "$root/var/lib/dpkg/status" > "$list/status" || return 1
    dpkg-deb --field "$1" | sed 's/^Package: .*/&\nStatus: install ok unpacked/' >> "$list/status" || return 1
    if ! dpkg --admindir="$list" --no-act --configure $name > "$work/log" 2>&1; then
        needs=$(sed -n "s/^ $name depends on \(.*\); however:$/\1/p" "$work/log" | paste -sd , | sed 's/,/, /g')
        # or a package that breaks it
        echo "${needs:-$(grep -m 1 '^ ' "$work/log" || tail -n 1 "$work/log")}"
    fi
}

# Makes a package of what is installed, so that the host can go back without anybody's help.
keep() {
    tree=$work/kept
    mkdir -p "$tree/DEBIAN"
    query --status $name \
        | awk '/^[^ ]/ { skip = /^(Status|Conffiles|Config-Version):/ } !skip' > "$tree/DEBIAN/control"
    query --control-path $name | while read -r file; do
        cp --archive "$file" "$tree/DEBIAN/${file##*/"$name".}" || exit 1
    done || return 1
    query --listfiles $name | while read -r file; do
        # dpkg lists folders too, and /lib is one that is a link on most hosts
        [ ! -d "$root$file" ] || continue
        [ -f "$root$file" ] || [ -L "$root$file" ] || continue
        { mkdir -p "$tree${file%/*}" && cp --archive "$root$file" "$tree$file"; } || exit 1
    done || return 1
    find "$tree" -type d -exec chmod 755 {} +
    dpkg-deb --root-owner-group -Zgzip -z1 --build "$tree" "$work/previous.deb" > "$work/log" 2>&1
    cp "$work/previous.deb" "$folder/previous.deb.new"
    sync "$folder/previous.deb.new"
    mv "$folder/previous.deb.new" "$folder/previous.deb"
    printf 'turn=%s\nversion=%s\njournal=%s\n' "$turn" "$(version_of "$folder/previous.deb")" "$1" | put "$folder/previous"
}

# restart_with FILE: the agent of this package instead of the one that runs
restart_with() {
    systemctl stop $unit || true
    rm -f "$folder/ready"
    packages --force-confold --install "$1" > "$work/log" 2>&1 || { start; return 1; }
    start
}
start() { systemctl start $unit || true; }
# journal PROGRAM: version of the journal
journal() { "$1" journal-version "$state/journal.sqlite"; }

# go_back PROGRAM REASON: PROGRAM is the newer one, which can read every journal
go_back() {
    systemctl stop $unit || true
    before=$(field journal "$folder/previous")
    now=$(journal "$1") || now=unknown
    if [ "$now" != "$before" ]; then
        start
        outcome failed "$2; the agent before cannot read the journal (version $now, was $before): install a newer one"
    fi
    restart_with "$folder/previous.deb" || outcome failed "$2; the version before cannot be installed: $(tail -n 1 "$work/log")"
    systemctl is-active --quiet $unit || outcome failed "$2; the version before is installed, and its service does not run"
    outcome failed "$2; the version before is installed again"
}

if [ "$action" = rollback ]; then
    kept=$folder/previous.deb
    if [ ! -f "$kept" ] || [ "$(field version "$folder/previous")" != "$version" ]; then
        refuse "no package of version $version is kept on this host"
    fi
    now=$(journal "$root/$program") || refuse "the journal cannot be read"
    before=$(field journal "$folder/previous")
    [ "$now" = "$before" ] || refuse "the agent of version $version cannot read the journal (version $now, was $before)"
    lacking=$(lacks "$kept") || refuse "the packages of this host cannot be listed"
    [ -z "$lacking" ] || refuse "the package that is kept needs what this host lacks: $lacking; install it with apt-get, then go on"
    restart_with "$kept" || outcome failed "dpkg: $(tail -n 1 "$work/log")"
    is_ready "$version" || outcome failed "version $version is installed, and its agent is not ready within $limit s"
    outcome installed ""
fi
[ "$action" = update ] || refuse "the action is unknown"

package=$folder/package.deb
case $digest in sha256:*[!0-9a-f]* | '') refuse "the digest is malformed" ;; esac
[ -f "$package" ] || refuse "there is no package"
# what is checked is what is installed: nobody else writes there
cp "$package" "$work/package.deb" || refuse "the package cannot be copied"
package=$work/package.deb
[ "$(stat -c %s "$package")" = "$size" ] || refuse "the package has another size"
[ "sha256:$(sha256sum < "$package" | cut -d ' ' -f 1)" = "$digest" ] || refuse "the package has another digest"
[ "$(dpkg-deb --field "$package" Package 2> /dev/null)" = $name ] || refuse "it is no package of $name"
new=$(dpkg-deb --field "$package" Version)
[ "$(version_of "$package")" = "$version" ] || refuse "the package is of version $(version_of "$package")"
lacking=$(lacks "$package") || refuse "the packages of this host cannot be listed"
[ -z "$lacking" ] || refuse "the package needs what this host lacks: $lacking; install it with apt-get, then go on"
unpack "$package" "$work/new" || refuse "the package has no program"
case $("$work/new/$program" --version 2> /dev/null) in
    "$name version=$version "*) ;;
    *) refuse "the program of the package does not run here" ;;
esac
begun=$(field turn "$folder/previous")
if [ "$begun" != "$turn" ]; then
    dpkg --compare-versions "$new" gt "$(installed)" || refuse "version $new is not newer than $(installed): roll back to go back"
    now=$(journal "$work/new/$program") || refuse "the program of the package cannot read the journal"
    keep "$now" || refuse "the version before cannot be kept: $(tail -n 1 "$work/log")"
fi
restart_with "$package" || go_back "$work/new/$program" "dpkg: $(tail -n 1 "$work/log")"
is_ready "$version" || go_back "$work/new/$program" "the agent of version $version is not ready within $limit s"
outcome installed ""
