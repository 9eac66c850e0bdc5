//! What two guests read of the host's metadata service (P11).
use super::host::{LabHost, Tenant};
use super::network::Pair;

/// What a guest is answered to a request with one header; nothing when nobody answers within seconds.
fn ask_metadata(host: &LabHost, tenant: &Tenant, request: &str, header: &str) -> String {
    let line = format!(
        r"printf '{request} HTTP/1.1\r\nHost: metadata\r\n{header}\r\n\r\n' | timeout 8 nc -w 4 169.254.169.254 80; true"
    );
    host.root(tenant, &line)
}

impl Pair<'_> {
    /// Each reads itself with its own token, and nobody reads the other, also with that one's token or as its address.
    pub fn metadata(&self) {
        let host = self.host;
        let id = "/latest/meta-data/instance-id";
        let tokens = [&self.hostile, &self.other].map(|tenant| {
            let ttl = "X-aws-ec2-metadata-token-ttl-seconds: 600";
            let reported = ask_metadata(host, tenant, "PUT /latest/api/token", ttl);
            let (head, token) = reported.split_once("\r\n\r\n").expect("an answer");
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            format!("X-aws-ec2-metadata-token: {}", token.trim())
        });
        let get = |tenant: &Tenant, path: &str, token: &str| {
            ask_metadata(host, tenant, &format!("GET {path}"), token)
        };
        let [own, others] = &tokens;
        for (tenant, token) in [(&self.hostile, own), (&self.other, others)] {
            let reported = get(tenant, id, token);
            let end = format!("\r\n\r\n{}", tenant.allocation);
            assert!(reported.ends_with(&end), "{reported}");
            let reported = get(tenant, "/latest/meta-data/placement/region", token);
            assert!(reported.ends_with("\r\n\r\nlab-region"), "{reported}");
            for refused in [get(tenant, id, "X-None: 1"), get(tenant, "/", "X-None: 1")] {
                assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
                assert!(refused.ends_with("\r\n\r\n"), "{refused}");
            }
        }
        let refused = get(&self.hostile, id, others);
        assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
        // with the neighbour's address and token; then with its own again, so that silence is the switch's doing
        let other = host.end_of(&self.other).ip;
        let route = "ip route replace 169.254.169.254 via 10.100.0.1 dev eth0 src";
        host.root(
            &self.hostile,
            &format!("ip addr add {other}/24 dev eth0\n{route} {other}"),
        );
        assert_eq!(get(&self.hostile, id, others), "");
        host.root(
            &self.hostile,
            &format!("ip route del 169.254.169.254\nip addr del {other}/24 dev eth0"),
        );
        let reported = get(&self.hostile, id, own);
        assert!(
            reported.ends_with(&self.hostile.allocation.to_string()),
            "{reported}"
        );
    }
}
