#!/bin/sh
# Runs a program of the agent as its service has it: with the platform's variables and the arguments of the unit, its drop-ins
# and its files of variables. So a command of the package finds what the agent finds, its state folder first of all.
#
# usage: gpuaas_node_agent_as_service.sh PROGRAM COMMAND...
# DPKG_ROOT: a folder that plays the host's root, for tests
set -eu
root=${DPKG_ROOT:-}
name=gpuaas-node-agent
program=${1:?usage: gpuaas_node_agent_as_service.sh PROGRAM COMMAND...}
shift

# unit: that of the service, with what its operator has changed of it
unit() {
    if [ -z "$root" ] && [ -d /run/systemd/system ]; then
        systemctl cat $name.service
        return
    fi
    own=$root/etc/systemd/system/$name.service
    [ -e "$own" ] || own=$root/lib/systemd/system/$name.service
    for file in "$own" "$root/etc/systemd/system/$name.service.d"/*.conf; do
        [ ! -r "$file" ] || { cat "$file" && echo; }
    done
}
# variables: those of the platform on standard input, one a line
variables() {
    while IFS= read -r line; do
        case ${line%%=*} in *[!A-Z0-9_]*) continue ;; esac
        case $line in
        GPUAAS_*=\"*\") line=${line%\"} && export "${line%%=*}=${line#*=\"}" ;;
        GPUAAS_*=\'*\') line=${line%\'} && export "${line%%=*}=${line#*=\'}" ;;
        GPUAAS_*=*) export "${line?}" ;;
        esac
    done
}
files="" command=""
while IFS= read -r setting; do
    case $setting in
    Environment=*)
        variables << WORDS
$(printf %s "${setting#*=}" | xargs -n 1)
WORDS
        ;;
    EnvironmentFile=) files="" ;;
    EnvironmentFile=*) setting=${setting#*=} && files="$files ${setting#-}" ;;
    ExecStart=*) command=${setting#*=} ;;
    esac
done << UNIT
$(unit | sed -e :line -e '/\\$/{' -e 'N; s/\\\n/ /; b line' -e '}')
UNIT
# a file wins over a variable of the unit
for file in $files; do
    [ ! -r "$root$file" ] || variables < "$root$file"
done
# words of a command line, as systemd splits them: it knows no patterns
set -f
arguments="" config="" first=1
for word in $command; do
    # the service's own program
    [ -z "$first" ] || { first="" && continue; }
    case $config$word in
    serve) ;;
    --config) config="--config=" ;;
    --config=*)
        word=$root${word#--config=} config=""
        # without it the service does not start
        [ ! -e "$word" ] || arguments="$arguments --config $word"
        ;;
    \$GPUAAS_NODE_AGENT_OPTIONS | "\${GPUAAS_NODE_AGENT_OPTIONS}") arguments="$arguments ${GPUAAS_NODE_AGENT_OPTIONS:-}" ;;
    *) arguments="$arguments $word" ;;
    esac
done
# shellcheck disable=SC2086 # as above
exec "$program" $arguments "$@"
