//! Its interfaces, addresses and neighbours.
use super::Host;

const MASQUERADE: &str = r#"{"nftables":[{"metainfo":{"version":"1.0.9"}},
    {"table":{"family":"ip","name":"nat","handle":1}},
    {"chain":{"family":"ip","table":"nat","name":"POSTROUTING","handle":1,"type":"nat","hook":"postrouting","prio":100,"policy":"accept"}},
    {"rule":{"family":"ip","table":"nat","chain":"POSTROUTING","handle":2,"expr":[
        {"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":{"prefix":{"addr":"10.100.0.0","len":24}}}},
        {"masquerade":null}]}}]}"#;

impl Host {
    pub(super) fn network(&mut self) {
        self.text("/proc/sys/net/ipv4/ip_forward", "1");
        self.text("/etc/netplan/60-ipoib.yaml", "network:\n  version: 2");
        let address = |name: &str, address: &str, length: u32| {
            format!(
                r#"{{"ifname":"{name}","addr_info":[{{"family":"inet","local":"{address}","prefixlen":{length},"scope":"global"}}]}}"#
            )
        };
        let bridge = address("ovsbr0", "10.100.0.1", 24);
        let all = [
            address("lo", "127.0.0.1", 8),
            address("eno1", "10.4.0.7", 22),
            bridge.clone(),
            address("ibp26s0", "192.168.4.7", 16),
            address("tmfifo_net0", "192.168.100.1", 30),
            address("tailscale0", "100.127.75.81", 32),
        ];
        for (name, kind) in [("eno1", "1"), ("ibp26s0", "32"), ("tailscale0", "65534")] {
            self.text(format!("/sys/class/net/{name}/type"), kind);
            self.text(
                format!("/sys/class/net/{name}/uevent"),
                format!("INTERFACE={name}"),
            );
        }
        self.text("/dev/ipmi0", "");
        self.answer(
            "ipmitool lan print",
            "IP Address Source       : Static Address\nIP Address              : 10.177.3.241\n\
             Subnet Mask             : 255.255.252.0\nMAC Address             : c4:cb:e1:00:00:01\n",
        );
        self.answer("ip -json address show", format!("[{}]", all.join(",")));
        self.answer("ip -json address show dev ovsbr0", format!("[{bridge}]"));
        self.answer(
            "ip -json -4 route show",
            r#"[{"dst":"default","dev":"eno1"},{"dst":"10.4.0.0/22","dev":"eno1"},{"dst":"192.168.0.0/16","dev":"ibp26s0"}]"#,
        );
        self.answer("probe libvirt-version", "8000000");
        for what in ["domains", "running"] {
            self.answer(format!("probe libvirt-{what}"), "[]");
        }
        self.answer("ovs-vsctl --timeout=5 br-exists ovsbr0", "");
        self.answer("nft --json list ruleset", MASQUERADE);
        self.answer("iptables-save -t nat", "");
        self.answer(
            "lldpcli -f json0 show neighbors details",
            r#"{"lldp":[{"interface":[{"name":"eno1","chassis":[{"id":[{"type":"mac","value":"ec:0d:9a:00:00:01"}],
                "name":[{"value":"leaf-7"}]}],"port":[{"id":[{"type":"ifname","value":"swp12"}],
                "descr":[{"value":"gpu-07 eno1"}]}]}]}]}"#,
        );
    }
}
