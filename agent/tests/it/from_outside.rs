//! Who reaches a guest from beyond its host: the packet filter's rules in the kernel, with network namespaces as guests, host and
//! neighbour of the host.
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use gpuaas_agent::ids::NetworkGroup;
use gpuaas_agent::ingress::{Owned, Protocol};
use gpuaas_agent::network::{Guest, Opening, document_of_ingress, document_of_linux_bridge};
use gpuaas_agent::settings::{BridgeKind, Network};
use nix::sched::{CloneFlags, setns, unshare};
use uuid::Uuid;

/// Longest wait for a connection that is let through, and for one that is not.
const ANSWER: Duration = Duration::from_secs(20);
const QUIET: Duration = Duration::from_millis(500);

const HOST: Ipv4Addr = Ipv4Addr::new(25, 11, 0, 1);
const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(25, 11, 0, 2);
/// Where guests, and the neighbour, take connections.
const SERVICE: u16 = 22;
/// Ports of the host that lead to the first guest's service: by a rule of the site, and by an ingress mapping.
const OF_SITE: u16 = 22_000;
const MAPPED: u16 = 30_000;

/// A network namespace, until it is dropped.
struct Namespace(File);

impl Namespace {
    fn new() -> Self {
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("a namespace");
            File::open("/proc/thread-self/ns/net").expect("a namespace")
        });
        Self(made.join().expect("a namespace"))
    }

    /// Works in it, on a thread of its own.
    fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                setns(&self.0, CloneFlags::CLONE_NEWNET).expect("entered");
                work()
            });
            worker.join().expect("it ran")
        })
    }

    fn run(&self, script: &str) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("set -e\n{script}")]);
        let ran = self.within(|| shell.output()).expect("sh");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{said}\n{script}");
    }

    /// As programs of this machine name it.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    fn serves(&self) -> TcpListener {
        let bound = self.within(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, SERVICE)));
        bound.expect("a port")
    }

    /// Whether somebody there is let through; `expected` decides only how long is waited.
    fn reaches(&self, address: Ipv4Addr, port: u16, expected: bool) -> bool {
        let to = SocketAddr::from((address, port));
        let limit = if expected { ANSWER } else { QUIET };
        self.within(|| TcpStream::connect_timeout(&to, limit).is_ok())
    }
}

fn guest(last: u8, group: Option<NetworkGroup>) -> Guest {
    Guest {
        port: format!("gs0123456789{last:02x}"),
        mac: format!("52:54:00:10:00:{last:02x}").parse().expect("a MAC"),
        ip: Ipv4Addr::new(10, 100, 0, last),
        group,
    }
}

/// A host with two guests on its bridge, a neighbour that routes the guests' network through it, and a port that the site leads to
/// the first guest.
struct World {
    host: Namespace,
    neighbour: Namespace,
    guests: [Namespace; 2],
    _serving: Vec<TcpListener>,
}

impl World {
    fn new() -> Self {
        let host = Namespace::new();
        let neighbour = Namespace::new();
        host.run(&format!(
            "ip link set lo up\n\
             ip link add br0 type bridge mcast_snooping 0\n\
             ip addr add 10.100.0.1/24 dev br0\n\
             ip link set br0 up\n\
             ip link add up0 type veth peer name eth0 netns {}\n\
             ip addr add {HOST}/24 dev up0\n\
             ip link set up0 up\n\
             echo 1 > /proc/sys/net/ipv4/ip_forward\n\
             nft add table ip site\n\
             nft add chain ip site prerouting '{{ type nat hook prerouting priority dstnat; }}'\n\
             nft add rule ip site prerouting ip daddr {HOST} tcp dport {OF_SITE} dnat to 10.100.0.10:{SERVICE}",
            neighbour.path()
        ));
        neighbour.run(&format!(
            "ip addr add {NEIGHBOUR}/24 dev eth0\n\
             ip link set eth0 up\n\
             ip route add 10.100.0.0/24 via {HOST}"
        ));
        let guests = [10, 11].map(|last| {
            let (namespace, Guest { port, mac, ip, .. }) = (Namespace::new(), guest(last, None));
            host.run(&format!(
                "ip link add {port} type veth peer name eth0 netns {}\n\
                 ip link set {port} master br0 up",
                namespace.path()
            ));
            namespace.run(&format!(
                "ip link set eth0 address {mac} up\n\
                 ip addr add {ip}/24 dev eth0\n\
                 ip route add default via 10.100.0.1"
            ));
            namespace
        });
        let servers = guests.iter().chain([&neighbour]);
        let serving = servers.map(Namespace::serves).collect();
        Self {
            host,
            neighbour,
            guests,
            _serving: serving,
        }
    }

    /// Puts the rules of the guests in force, with an ingress mapping to the first.
    fn put(&self, folder: &Path, network: &Network, group: Option<NetworkGroup>) {
        let owned = Owned {
            address: HOST,
            ports: "30000-30999".parse().expect("ports"),
        };
        let opening = Opening {
            protocol: Protocol::Tcp,
            external_port: MAPPED,
            ip: Ipv4Addr::new(10, 100, 0, 10),
            vm_port: SERVICE,
            sources: Vec::new(),
        };
        let guests = [10, 11].map(|last| guest(last, group));
        let mut text = document_of_linux_bridge(network, &guests);
        text.push_str(&document_of_ingress(network, owned, &[opening]));
        let file = folder.join("rules");
        std::fs::write(&file, text).expect("a file");
        self.host.run(&format!("nft -f {}", file.display()));
    }
}

/// J-13, J-14: the neighbour reaches guests by the ports that lead to them, and at their own addresses only from where the settings
/// say; guests, and the host, reach whom they reached.
#[test]
fn p11_a_neighbour_of_the_host_reaches_a_guest_by_translated_ports_alone() {
    let world = World::new();
    let folder = tempfile::tempdir().expect("a folder");
    let [one, other] = [10, 11].map(|last| Ipv4Addr::new(10, 100, 0, last));
    let neighbour = &world.neighbour;
    let routed = |expected| {
        for address in [one, other] {
            assert_eq!(neighbour.reaches(address, SERVICE, expected), expected);
        }
    };
    // without rules it has a way, so it is the rules that close it
    routed(true);

    let closed = Network {
        bridge: "br0".into(),
        bridge_kind: BridgeKind::Linux,
        ..Network::default()
    };
    let others = Network {
        routed_sources: vec!["10.30.0.0/16".parse().expect("a network")],
        ..closed.clone()
    };
    let named = Network {
        routed_sources: vec!["25.11.0.0/24".parse().expect("a network")],
        ..closed.clone()
    };
    for (network, is_named) in [(&closed, false), (&others, false), (&named, true)] {
        world.put(folder.path(), network, None);
        routed(is_named);
        for port in [OF_SITE, MAPPED] {
            assert!(neighbour.reaches(HOST, port, true), "{port}");
        }
        // the host logs in to its guests, and a guest gets the answers that it asked for
        assert!(world.host.reaches(one, SERVICE, true));
        let [first, second] = &world.guests;
        assert!(first.reaches(NEIGHBOUR, SERVICE, true));
        assert!(!first.reaches(other, SERVICE, false));
        assert!(!second.reaches(one, SERVICE, false));
    }

    world.put(folder.path(), &closed, Some(NetworkGroup(Uuid::now_v7())));
    assert!(world.guests[0].reaches(other, SERVICE, true));
    assert!(world.guests[1].reaches(one, SERVICE, true));
    routed(false);
}
