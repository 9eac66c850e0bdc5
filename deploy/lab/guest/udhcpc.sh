#!/bin/sh
# Called by udhcpc in the mini guest with the lease in variables.
# shellcheck disable=SC2154  # interface, ip, mask, router and dns come from udhcpc
case $1 in
    bound | renew)
        ip addr flush dev "$interface"
        ip addr add "$ip/$mask" dev "$interface"
        ip link set "$interface" up
        for gateway in $router; do ip route replace default via "$gateway"; done
        : > /etc/resolv.conf
        for server in $dns; do echo "nameserver $server" >> /etc/resolv.conf; done
        ;;
esac
