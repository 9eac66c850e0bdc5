//! What the site put on the host beside the platform: a way in for its own people (INC-35), and Netdata (INC-36). Both
//! are told and neither is a gate (A-19, CON-09).
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::CheckResult;
use crate::checks::{DEPLOY_USER, NETDATA};
use crate::host::recording;
use crate::host::root::HostRoot;
use crate::settings::Bootstrap;

/// Where Netdata listens: for the proxy of its own host alone (A-19, INC-36).
const BACKEND: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 19998);
/// State of a socket that listens, as the kernel prints it.
const LISTEN: &str = "0A";

/// Whether a key leads to the user that the site deploys with: MAAS may have given it to the image's own user.
pub(super) fn deploy_user(root: &HostRoot, bootstrap: &Bootstrap) -> CheckResult {
    let user = bootstrap.deploy_user.as_str();
    if user.is_empty() {
        return CheckResult::skip(&DEPLOY_USER, "the site names no deploy user");
    }
    if recording::is_replay() {
        return CheckResult::skip(&DEPLOY_USER, "a recording has no folders of users");
    }
    let users = root.read("/etc/passwd").unwrap_or_default();
    let Some(home) = users.lines().find_map(|line| home_of(line, user)) else {
        let detail = format!("{user} is no user of this host");
        return CheckResult::judge(&DEPLOY_USER, false, detail);
    };
    let keys = root.read(format!("{home}/.ssh/authorized_keys"));
    let keys = keys.unwrap_or_default();
    let lines = keys.lines().map(str::trim);
    let count = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .count();
    let detail = format!("{count} keys lead to {user}");
    CheckResult::judge(&DEPLOY_USER, count > 0, detail)
}

/// The home folder in a line of `/etc/passwd`, if the line is the user's.
fn home_of<'a>(line: &'a str, user: &str) -> Option<&'a str> {
    let mut fields = line.split(':');
    (fields.next()? == user).then(|| fields.nth(4))?
}

/// Whether Netdata listens for the host's own proxy alone.
pub(super) fn netdata(root: &HostRoot) -> CheckResult {
    let processes = processes(root);
    if processes.is_empty() {
        return match root.exists("/usr/sbin/netdata") {
            true => CheckResult::judge(&NETDATA, false, "it is installed and does not run"),
            false => CheckResult::skip(&NETDATA, "this host has no Netdata"),
        };
    }
    let sockets: BTreeSet<String> = processes
        .iter()
        .flat_map(|folder| sockets(root, folder))
        .collect();
    let all: Vec<Listener> = ["tcp", "tcp6"]
        .into_iter()
        .flat_map(|table| {
            listeners(
                &root
                    .read(format!("/proc/self/net/{table}"))
                    .unwrap_or_default(),
            )
        })
        .collect();
    // whoever has it: on this port nobody but Netdata is expected
    let open = all.iter().filter(|one| {
        let is_its_own = sockets.contains(&one.inode) || one.address.port() == BACKEND.port();
        is_its_own && !one.address.ip().is_loopback()
    });
    let open: Vec<String> = open.map(|one| one.address.to_string()).collect();
    if !open.is_empty() {
        let detail = format!("it listens on {} itself", open.join(", "));
        return CheckResult::judge(&NETDATA, false, detail);
    }
    let has_backend = all.iter().any(|one| one.address == BACKEND);
    let verb = if has_backend {
        "listens"
    } else {
        "does not listen"
    };
    CheckResult::judge(&NETDATA, has_backend, format!("it {verb} on {BACKEND}"))
}

/// Folders of Netdata's processes.
fn processes(root: &HostRoot) -> Vec<String> {
    let names = root.names("/proc");
    let ids = names
        .iter()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let folders = ids.map(|id| format!("/proc/{id}"));
    folders
        .filter(|folder| root.read_value(format!("{folder}/comm")).as_deref() == Some("netdata"))
        .collect()
}

/// Numbers of the sockets that a process holds; none where they cannot be seen.
fn sockets(root: &HostRoot, process: &str) -> Vec<String> {
    let folder = format!("{process}/fd");
    let names = root.names(&folder);
    let links = names
        .iter()
        .filter_map(|name| root.link(format!("{folder}/{name}")));
    links
        .filter_map(|link| {
            let number = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some(number.to_owned())
        })
        .collect()
}

/// A socket that listens.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listener {
    address: SocketAddr,
    inode: String,
}

/// The listening sockets of a table of the kernel; lines that are none are left out.
fn listeners(table: &str) -> Vec<Listener> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, LISTEN, _, _, _, _, _, inode, ..] = fields[..] else {
            return None;
        };
        let (address, port) = local.split_once(':')?;
        let address = SocketAddr::new(address_of(address)?, u16::from_str_radix(port, 16).ok()?);
        let inode = inode.to_owned();
        Some(Listener { address, inode })
    };
    table.lines().filter_map(line).collect()
}

/// An address as the kernel prints it: words in the order of this machine.
fn address_of(text: &str) -> Option<IpAddr> {
    let mut bytes = Vec::new();
    for start in (0..text.len()).step_by(8) {
        let word = u32::from_str_radix(text.get(start..start + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let v4 = <[u8; 4]>::try_from(&bytes[..]).map(Ipv4Addr::from);
    let v6 = <[u8; 16]>::try_from(&bytes[..]).map(Ipv6Addr::from);
    v4.map(IpAddr::V4).or(v6.map(IpAddr::V6)).ok()
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::common::v1::EvidenceStatus::{Fail, Pass, Skip};

    use super::*;

    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, HostRoot) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = HostRoot::new(dir.path());
        (dir, root)
    }

    #[test]
    fn inc_35_a_52_a_key_of_the_images_own_user_is_not_the_deploy_users() {
        const USERS: &str = "root:x:0:0:root:/root:/bin/bash\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n\
                             hpcadmin:x:1001:1001:HPC:/home/hpc:/bin/bash\n";
        let user = |name: &str| Bootstrap {
            deploy_user: name.to_owned(),
            ..Bootstrap::default()
        };
        let injected = (
            "home/ubuntu/.ssh/authorized_keys",
            "ssh-ed25519 AAAA maas\n",
        );
        let (_dir, root) = host(&[("etc/passwd", USERS), injected]);
        let found = deploy_user(&root, &user("hpcadmin"));
        assert_eq!(
            (found.status, found.detail.as_str()),
            (Fail, "0 keys lead to hpcadmin")
        );
        assert_eq!(deploy_user(&root, &user("ubuntu")).status, Pass);
        assert_eq!(deploy_user(&root, &user("hpc")).status, Fail);
        assert_eq!(deploy_user(&root, &user("")).status, Skip);

        let comment = ("home/hpc/.ssh/authorized_keys", "# none yet\n\n");
        let (_dir, root) = host(&[("etc/passwd", USERS), comment]);
        assert_eq!(deploy_user(&root, &user("hpcadmin")).status, Fail);
        let own = (
            "home/hpc/.ssh/authorized_keys",
            "# site\nssh-ed25519 AAAA site\n",
        );
        let (_dir, root) = host(&[("etc/passwd", USERS), own]);
        assert_eq!(deploy_user(&root, &user("hpcadmin")).status, Pass);
    }

    /// A line of the kernel's table, of a socket that listens.
    fn line(local: &str, inode: u32) -> String {
        format!(
            "   0: {local} 00000000:0000 0A 00000000:00000000 00:00000000 00000000   999        0 {inode} 1 0 100 0 0 10 0\n"
        )
    }

    /// I-207
    #[test]
    fn inc_36_netdata_that_listens_itself_is_no_converged_host() {
        // 127.0.0.1:19998 and 0.0.0.0:19999, on a machine with the lowest byte first
        let word = |address: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(address));
        let backend = line(&format!("{}:4E1E", word([127, 0, 0, 1])), 71);
        let open_backend = line(&format!("{}:4E1E", word([0, 0, 0, 0])), 71);
        let edge = |inode| line(&format!("{}:4E1F", word([0, 0, 0, 0])), inode);
        let edge_v6 = line(&format!("{}:4E1F", "0".repeat(32)), 71);
        let judged = |tcp: &str, tcp6: &str| {
            let (dir, root) = host(&[
                ("proc/77/comm", "netdata\n"),
                ("proc/78/comm", "nginx\n"),
                ("proc/self/net/tcp", tcp),
                ("proc/self/net/tcp6", tcp6),
            ]);
            std::fs::create_dir(dir.path().join("proc/77/fd")).unwrap();
            std::os::unix::fs::symlink("socket:[71]", dir.path().join("proc/77/fd/4")).unwrap();
            netdata(&root)
        };
        // nginx, which has the other number, is the edge
        let found = judged(&(backend.clone() + &edge(99)), "");
        assert_eq!(
            (found.status, found.detail.as_str()),
            (Pass, "it listens on 127.0.0.1:19998")
        );
        for (tcp, tcp6, said) in [
            (edge(71), "", "0.0.0.0:19999"),
            (backend.clone() + &edge(71), "", "0.0.0.0:19999"),
            (backend.clone(), edge_v6.as_str(), "[::]:19999"),
            (open_backend, "", "0.0.0.0:19998"),
            (edge(99), "", "does not listen on 127.0.0.1:19998"),
            (String::new(), "", "does not listen"),
        ] {
            let found = judged(&tcp, tcp6);
            assert_eq!(found.status, Fail, "{tcp}{tcp6}");
            assert!(found.detail.contains(said), "{}", found.detail);
        }
        let (_dir, root) = host(&[("usr/sbin/netdata", "")]);
        assert_eq!(netdata(&root).status, Fail);
        assert_eq!(netdata(&host(&[]).1).status, Skip);
    }
}
