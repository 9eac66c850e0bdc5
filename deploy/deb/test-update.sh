#!/bin/bash
# Runs the updater of the agent's package in a folder that plays a host: an update, a rollback, an agent that does not become
# ready, one that has changed the journal, and packages that are refused. systemd is played by a script; dpkg, the packages
# and the agent's program are real.
#
# usage: test-update.sh PACKAGE
set -euo pipefail
package=$(realpath "${1:?usage: test-update.sh PACKAGE}")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=gpuaas-node-agent
program=opt/gpuaas/node-agent/$name
old=$(dpkg-deb -f "$package" Version | sed 's/.*+[0-9]*\.//')

fail() { echo "test-update: $*" >&2; exit 1; }
# same WHAT EXPECTED ACTUAL
same() { [ "$2" = "$3" ] || fail "$1: expected \"$2\", got \"$3\""; }

# a later package: its program is the same one, and calls itself NAMES; one whose agent breaks says so to the played systemd
# newer NAMES STAMP BROKEN [NEEDS]
newer() {
    local tree=$work/tree-$1
    dpkg-deb -R "$package" "$tree"
    sed -i "s/^Version: .*/Version: 9.0.0+$2.$1/; s/^Depends: .*/&${4:+, $4}/" "$tree/DEBIAN/control"
    # shellcheck disable=SC2016 # of the script that is written
    printf '#!/bin/sh\n# broken=%s\n[ "$1" != --version ] || { echo "%s version=%s built_at=x"; exit 0; }\nexec "$GPUAAS_TEST_PROGRAM" "$@"\n' \
        "$3" $name "$1" > "$tree/$program"
    chmod 755 "$tree/$program"
    dpkg-deb --root-owner-group -Zgzip --build "$tree" "$work/$1.deb" > /dev/null
}
mkdir "$work/real"
dpkg-deb --fsys-tarfile "$package" | tar --extract --directory="$work/real" "./$program"
export GPUAAS_TEST_PROGRAM=$work/real/$program
newer good 20300101000000 no
newer better 20300102000000 no
newer silent 20300103000000 silent
newer migrates 20300104000000 migrates
newer needy 20300105000000 no "libgpuaas9 (>= 2), libc6 (>= 2.2), libc6 (>= 999), libgpuaas1 | libgpuaas2"

# sql FILE STATEMENTS
mkdir "$work/bin"
cat > "$work/sql" << 'SQL'
#!/usr/bin/python3
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as journal:
    for statement in sys.argv[2].split(";"):
        for row in journal.execute(statement):
            print(*row)
SQL
chmod +x "$work/sql"

# systemd: an agent that starts gets an answer to its heartbeat and says so, unless it is broken
cat > "$work/bin/systemctl" << 'SYSTEMCTL'
#!/bin/bash
set -euo pipefail
echo "$*" >> "$GPUAAS_TEST_LOG"
[ "$1" = start ] || exit 0
program=$GPUAAS_UPDATE_ROOT/opt/gpuaas/node-agent/gpuaas-node-agent
state=$GPUAAS_TEST_STATE
broken=$(grep -a -m 1 -o '^# broken=[a-z]*' "$program" || true)
case $broken in
    *=silent) exit 0 ;;
    *=migrates) "$GPUAAS_TEST_SQL" "$state/journal.sqlite" 'PRAGMA user_version = 99'; exit 0 ;;
esac
"$program" --version | sed 's/.* version=\([^ ]*\) .*/\1/' > "$state/update/ready"
SYSTEMCTL
chmod +x "$work/bin/systemctl"
export PATH="$work/bin:$PATH" GPUAAS_TEST_SQL=$work/sql GPUAAS_TEST_LOG=$work/log GPUAAS_UPDATE_READY_SECONDS=2

root=$work/host
export GPUAAS_UPDATE_ROOT=$root
# not the usual one: the settings file names it
export GPUAAS_TEST_STATE=$root/srv/gpuaas
state=$GPUAAS_TEST_STATE
folder=$state/update
mkdir -p "$root"/var/lib/dpkg/{info,updates,parts,triggers} "$folder"
touch "$root"/var/lib/dpkg/{status,available}
# as on hosts of today
mkdir -p "$root/usr/lib"
ln -s usr/lib "$root/lib"
# what the package needs is there
dpkg-deb --field "$package" Depends | sed 's/ *([^)]*)//g; s/ *[,|] */\n/g' | sort -u | while read -r needed; do
    # shellcheck disable=SC2016 # fields of dpkg-query
    dpkg-query --show --showformat='Package: ${Package}\nStatus: install ok installed\nMaintainer: ${Maintainer}\nArchitecture: ${Architecture}\nVersion: ${Version}\nDescription: played\n\n' "$needed"
done > "$root/var/lib/dpkg/status"
dpkg --root="$root" --log=/dev/null --force-script-chrootless --force-not-root --install "$package" > /dev/null 2>&1
echo 'GPUAAS_NODE_AGENT_OPTIONS="--set telemetry.log=debug"' > "$root/etc/default/$name"
"$work/sql" "$state/journal.sqlite" "PRAGMA user_version = 1; CREATE TABLE holds (slot_id TEXT); INSERT INTO holds VALUES ('a')"
journal=$(sha256sum < "$state/journal.sqlite")
mkdir -p "$root/etc/gpuaas"
sed 's|^state_dir = .*|state_dir = "/srv/gpuaas"|' deploy/deb/node-agent.toml > "$root/etc/gpuaas/node-agent.toml"
grep -q '^state_dir = "/srv/gpuaas"$' "$root/etc/gpuaas/node-agent.toml" || fail "the example names no state folder"

attempt=0
# request ACTION VERSION [PACKAGE]: as the agent writes it
request() {
    attempt=$((attempt + 1))
    rm -f "$folder/package.deb"
    local digest="" size=0
    if [ -n "${3:-}" ]; then
        cp "$3" "$folder/package.deb"
        digest=sha256:$(sha256sum < "$3" | cut -d ' ' -f 1)
        size=$(stat -c %s "$3")
    fi
    printf 'rollout=0190a5b0-0000-7000-8000-000000000001\nattempt=%s\naction=%s\nversion=%s\ndigest=%s\nsize=%s\n' \
        $attempt "$1" "$2" "$digest" "$size" > "$folder/request"
}
# runs STATE VERSION REASON: how the updater ends, what is installed then, and a part of the reason
runs() {
    deploy/deb/update.sh > "$work/said" 2>&1 || { cat "$work/said" >&2; fail "the updater fails"; }
    same "the attempt of the outcome" $attempt "$(sed -n 's/^attempt=//p' "$folder/outcome")"
    same "the outcome ($(tail -n 1 "$work/said"))" "$1" "$(sed -n 's/^state=//p' "$folder/outcome")"
    grep -q "^reason=.*$3" "$folder/outcome" || fail "the reason is $(sed -n 's/^reason=//p' "$folder/outcome")"
    same "the installed version" "$2" "$("$root/$program" --version | sed 's/.* version=\([^ ]*\) .*/\1/')"
    same "files of the package that are gone" "" "$(dpkg-deb --fsys-tarfile "$package" | tar --list | while read -r file; do
        [ -e "$root/$file" ] || echo "$file"; done)"
    grep -q telemetry.log=debug "$root/etc/default/$name" || fail "what the operator wrote is overwritten"
}

# backups: what was kept of programs that were replaced
backups() { find "${root}/${program%/*}" -name "$name.backup-*"; }

# The program that was replaced is there, under the time of its replacement.
d_93_the_replaced_program_is_kept() {
    same "the backup" "$(sha256sum < "$GPUAAS_TEST_PROGRAM")" "$(sha256sum < "$(backups)")"
    [[ $(backups) =~ \.backup-[0-9]{8}T[0-9]{6}Z$ ]] || fail "the backup is $(backups)"
}

# begun with every start of the agent: without a request it does nothing
deploy/deb/update.sh > "$work/said" || fail "the updater fails without a request"
same "said without a request" "" "$(cat "$work/said")"
same "the folder without a request" "" "$(ls -A "$folder")"
[ ! -e "$work/log" ] || fail "the updater restarts the agent without a request"

[ -z "$(backups)" ] || fail "there are backups before anything was replaced"
request update good "$work/good.deb"
runs installed good ""
d_93_the_replaced_program_is_kept
starts=$(wc -l < "$work/log")
deploy/deb/update.sh > "$work/said"
grep -q "has ended" "$work/said" || fail "an update that has ended runs again"
same "a second run restarts the agent" "$starts" "$(wc -l < "$work/log")"

# after a power loss in the middle it goes on, and what it keeps is still the version before
request update better "$work/better.deb"
runs installed better ""
rm "$folder/outcome"
runs installed better ""
same "the kept version" good "$(sed -n 's/^version=//p' "$folder/previous")"
# a drop-in of the operator wins over the settings file, as for the service
own=$root/etc/systemd/system/$name.service.d
mkdir -p "$own"
printf '[Service]\nEnvironment=GPUAAS__AGENT__STATE_DIR=/srv/other\n' > "$own/site.conf"
mv "$state" "$root/srv/other"
state=$root/srv/other folder=$root/srv/other/update
export GPUAAS_TEST_STATE=$state
rm "$folder/outcome"
runs installed better ""
rm -r "$own"
mv "$state" "$root/srv/gpuaas"
state=$root/srv/gpuaas folder=$root/srv/gpuaas/update
export GPUAAS_TEST_STATE=$state

# a new agent that does not run after a power loss: a program of before knows the way
printf '#!/bin/sh\nexit 1\n' > "$root/$program"
rm "$folder/outcome"
runs installed better ""

request rollback "$old"
runs failed better "no package of version"
request rollback good
runs installed good ""

request update silent "$work/silent.deb"
runs failed good "not ready within 2 s; the version before is installed again"

# refused, and nothing is done
starts=$(wc -l < "$work/log")
request update "$old" "$package"
runs failed good "is not newer"
request update good "$work/better.deb"
runs failed good "the package is of version better"
request update better "$work/better.deb"
sed -i "s/^digest=.*/digest=sha256:$(printf '0%.0s' {1..64})/" "$folder/request"
runs failed good "another digest"
request update better "$work/better.deb"
sed -i "s/^size=.*/size=1/" "$folder/request"
runs failed good "another size"
request update better
runs failed good "the digest is malformed"
request update needy "$work/needy.deb"
runs failed good "needs what this host lacks: libgpuaas9 (>= 2), libc6 (>= 999), libgpuaas1 | libgpuaas2; install it"
same "a refusal restarts the agent" "$starts" "$(wc -l < "$work/log")"
same "the journal" "$journal" "$(sha256sum < "$state/journal.sqlite")"

# an agent before that cannot read the journal any more is not put back
request update migrates "$work/migrates.deb"
runs failed migrates "cannot read the journal (version 99, was 1)"
same "the holds" a "$("$work/sql" "$state/journal.sqlite" 'SELECT slot_id FROM holds')"
kept=$(backups | wc -l)
case $kept in 1 | 2 | 3) ;; *) fail "$kept backups are kept instead of one to three" ;; esac

# programs from before the command that names the folder: it is the usual one
printf '#!/bin/sh\nexit 2\n' > "$root/$program"
backups | xargs -d '\n' rm -f
mv "$state" "$root/var/lib/gpuaas"
deploy/deb/update.sh > "$work/said" 2>&1 || { cat "$work/said" >&2; fail "the updater fails where no program names the folder"; }
grep -q "this is /var/lib/gpuaas" "$work/said" || fail "the updater takes the usual folder and does not say so"
grep -q "has ended" "$work/said" || fail "the updater does not find its request in the usual folder"
echo "test-update: updates, goes back, and refuses as it should"
