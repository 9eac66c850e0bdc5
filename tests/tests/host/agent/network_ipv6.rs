//! What a hostile guest tries over IPv6 (P11): the host's and its neighbour's link-local addresses, addresses that it gives
//! itself and that others have, the kernel's own end of its port, and the machine beyond the host, where registry and
//! inventory are.
use std::net::{Ipv6Addr, TcpListener, TcpStream};

use gpuaas_dev::process;

use super::host::{LabHost, Tenant, until};

/// Where host and neighbour take connections, to see whether one comes.
const PORT: u16 = 7061;
const AGENT: u16 = 7110;
const LOGIN: u16 = 22;

/// A network that nobody gave the guests.
fn global(tenant: &Tenant) -> String {
    format!("2001:db8:11::1:{}", tenant.slot.slot_index)
}

/// The guest's DHCP client takes away the one that its kernel made.
fn own_link_local(tenant: &Tenant) -> String {
    format!("fe80::11:{}", tenant.slot.slot_index)
}

const GLOBAL_OF_HOST: &str = "2001:db8:11::1";
/// The ends of the link between host and machine.
const UPLINK_OF_HOST: &str = "2001:db8:12::1";
const MACHINE: &str = "2001:db8:12::2";
/// How many of the targets have somebody who takes connections from whom the rules let through.
const ANSWERED: usize = 7;
/// Where EC2 serves metadata over IPv6.
const METADATA: &str = "[fd00:ec2::254]:80";

/// The link-local address of a device, of the kernel's list `/proc/net/if_inet6`.
fn link_local(list: &str, device: &str) -> Option<Ipv6Addr> {
    let line = list
        .lines()
        .find(|line| line.starts_with("fe80") && line.split_whitespace().last() == Some(device))?;
    let groups: Vec<&str> = (0..8)
        .map(|group| &line[4 * group..4 * group + 4])
        .collect();
    groups.join(":").parse().ok()
}

/// Has the machine beyond the host play registry and inventory over IPv6, and the host forward to it what the guests send.
pub struct Beyond {
    registry: TcpListener,
    inventory: TcpListener,
}

impl Beyond {
    /// Until the lab host ends, whose link to the machine has the addresses.
    pub async fn listen(host: &LabHost) -> Self {
        let lab = |line: &str| host.lab.exec("sh", &["-c", line]).expect("it runs");
        lab(&format!(
            "ip -6 addr add {UPLINK_OF_HOST}/64 dev up0 nodad && echo 1 > /proc/sys/net/ipv6/conf/all/forwarding"
        ));
        let machine = host.lab.machine_address().to_string();
        let found = process::run("ip", &["-o", "addr", "show", "to", &machine]).expect("a link");
        let end = found.split_whitespace().nth(1).expect("a device");
        let address = format!("{MACHINE}/64");
        let addr = ["-6", "addr", "add", &address, "dev", end, "nodad"];
        process::run("ip", &addr).expect("an address");
        let guests = format!("{GLOBAL_OF_HOST}/64");
        let route = [
            "-6",
            "route",
            "add",
            &guests,
            "via",
            UPLINK_OF_HOST,
            "dev",
            end,
        ];
        process::run("ip", &route).expect("a way back");
        // the kernel makes the way to an address of its own a moment after the address
        until("the machine's own address", async || {
            let way = process::run("ip", &["-6", "route", "get", MACHINE]).ok()?;
            way.starts_with("local ").then_some(())
        })
        .await;
        let bind = || TcpListener::bind((MACHINE, 0)).expect("a port");
        let beyond = Self {
            registry: bind(),
            inventory: bind(),
        };
        for listener in [&beyond.registry, &beyond.inventory] {
            let address = listener.local_addr().expect("bound");
            TcpStream::connect(address).expect("it answers whom it may");
        }
        beyond
    }

    fn targets(&self) -> [String; 2] {
        [&self.registry, &self.inventory]
            .map(|listener| listener.local_addr().expect("bound").to_string())
    }
}

/// Gives guests link-local addresses and all three ends global ones, has host and neighbour listen, and returns what the
/// hostile guest tries.
fn prepare(
    host: &LabHost,
    hostile: &Tenant,
    other: &Tenant,
    (port, beyond): (&str, &Beyond),
) -> Vec<String> {
    let on = |device: &str, addresses: &[&str]| {
        let add = addresses
            .iter()
            .map(|address| format!("ip -6 addr add {address}/64 dev {device} 2> /dev/null\n"));
        format!(
            "echo 0 > /proc/sys/net/ipv6/conf/{device}/accept_dad\n{}true",
            add.collect::<String>()
        )
    };
    let program = super::attacker::frame_program(&host.folder);
    let serve = format!("{} serve 30 {PORT}", program.display());
    let line = format!("{}\n{serve}", on("ovsbr0", &[GLOBAL_OF_HOST]));
    host.lab
        .exec("sh", &["-c", &line])
        .expect("the host listens");
    let guest = |tenant: &Tenant, then: &str| {
        let addresses = on("eth0", &[&own_link_local(tenant), &global(tenant)]);
        host.root(tenant, &format!("{addresses}\n{then}"))
    };
    guest(
        hostile,
        &format!(
            "ip -6 neigh flush dev eth0\nip -6 route del default 2> /dev/null\n\
             ip -6 route add default via {GLOBAL_OF_HOST} dev eth0"
        ),
    );
    guest(other, &format!("/tmp/frame serve 30 {PORT}"));

    let of_host = host
        .lab
        .exec("cat", &["/proc/net/if_inet6"])
        .expect("addresses");
    let bridge = link_local(&of_host, "ovsbr0").expect("the host has one");
    let neighbour = own_link_local(other);
    let [registry, inventory] = beyond.targets();
    let mut targets = vec![
        registry,
        inventory,
        format!("[{bridge}%eth0]:{PORT}"),
        format!("[{GLOBAL_OF_HOST}]:{PORT}"),
        format!("[{neighbour}%eth0]:{PORT}"),
        format!("[{neighbour}%eth0]:{LOGIN}"),
        format!("[{}]:{PORT}", global(other)),
        format!("[{bridge}%eth0]:{AGENT}"),
        format!("[{GLOBAL_OF_HOST}]:{AGENT}"),
        METADATA.to_owned(),
    ];
    // the kernel's own end, past the switch
    targets.extend(link_local(&of_host, port).map(|tap| format!("[{tap}%eth0]:{PORT}")));
    targets
}

/// Nobody answers a guest over IPv6, whatever address it gives itself.
pub fn closed(
    host: &LabHost,
    hostile: &Tenant,
    other: &Tenant,
    (port, beyond): (&str, &Beyond),
    moment: &str,
) {
    let targets = prepare(host, hostile, other, (port, beyond));
    let reported = host.scan(hostile, &targets);
    let silent: Vec<String> = targets.iter().map(|one| format!("silent {one}")).collect();
    assert_eq!(reported, silent, "{moment}");
    // nor has it learned where anybody is, but for the kernel's end of its own port, which may have asked for it
    let of_host = host.lab.exec("cat", &["/proc/net/if_inet6"]);
    let own_end = link_local(&of_host.expect("addresses"), port);
    let known = host.root(hostile, "ip -6 neigh show dev eth0");
    for line in known.lines().filter(|line| line.contains("lladdr")) {
        let whose = line.split_whitespace().next();
        let whose = whose.and_then(|address| address.parse::<Ipv6Addr>().ok());
        assert!(whose.is_some() && whose == own_end, "{moment}: {known}");
    }
    let address = format!("{GLOBAL_OF_HOST}/64");
    let arguments = ["-6", "addr", "del", address.as_str(), "dev", "ovsbr0"];
    host.lab.exec("ip", &arguments).expect("it had the address");
}

/// With every rule gone the same guest reaches the same ends: what `closed` tries is there to be found.
pub fn open_without_rules(
    host: &LabHost,
    hostile: &Tenant,
    other: &Tenant,
    (port, beyond): (&str, &Beyond),
) {
    let targets = prepare(host, hostile, other, (port, beyond));
    let reported = host.scan(hostile, &targets);
    for target in &targets[..ANSWERED] {
        assert!(
            reported.contains(&format!("open {target}")),
            "{target}: {reported:?}"
        );
    }
}

/// Another hand opens the switch and the filter.
pub fn open(host: &LabHost) {
    let exec = |program: &str, arguments: &[&str]| {
        host.lab.exec(program, arguments).expect("it runs");
    };
    let all = "priority=900,actions=NORMAL";
    exec("ovs-ofctl", &["add-flow", "ovsbr0", all]);
    exec("nft", &["delete", "table", "inet", "gpuaas_guests"]);
}
