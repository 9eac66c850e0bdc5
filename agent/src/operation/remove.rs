//! Removal of what a VM leaves on the host: domain, NVRAM, serial log, reservation, seed, port. Used by the undo of a
//! provision, by clean-up and by release (D-64, D-73); every part may be gone already.
use std::path::Path;
use std::sync::Arc;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::error::{HostError, HostResult, io_error};
use crate::host::blocking;
use crate::ids::AllocationId;
use crate::network::ovs_vsctl;
use crate::node::Node;
use crate::settings::BridgeKind;
use crate::vm::nvram;

/// How often a domain is removed that is there again.
const UNDEFINE_TRIES: u32 = 3;
/// Tables of the switch's database with the limits of ports.
const LIMITS: [&str; 2] = ["qos", "queue"];

/// Stops the domain hard.
pub async fn destroy(node: &Node, allocation: AllocationId) -> HostResult<()> {
    node.hypervisor.destroy(allocation.vm_name().as_str()).await
}

/// Stops the domain hard, removes it with its NVRAM, its rescue disk and the hypervisor's serial log, and checks that it is gone (INC-26). A start that was given up may
/// still be on its way through the hypervisor and come after the stop; it is stopped then, and cannot come again.
pub async fn undefine(node: &Node, allocation: AllocationId) -> HostResult<()> {
    let name = allocation.vm_name();
    let mut tries = 0;
    loop {
        tries += 1;
        node.hypervisor.destroy(name.as_str()).await?;
        node.hypervisor.undefine(name.as_str()).await?;
        match node.hypervisor.state(name.as_str()).await? {
            None => {
                blocking::here(|| nvram::remove(&node.root, allocation))?;
                rescue(node, allocation).await?;
                let (serial, name) = (Arc::clone(&node.serial), name.clone());
                return blocking::run(move || serial.end(&name)).await;
            }
            Some(_) if tries < UNDEFINE_TRIES => {}
            Some(state) => {
                return Err(HostError::host(
                    ErrorReason::HypervisorFailed,
                    format!(
                        "domain {name} is still {} after it was undefined",
                        state.as_str()
                    ),
                ));
            }
        }
    }
}

/// Removes the ingress mappings (J-13), the reservation (INC-20) and the port on the bridge.
pub async fn reservation(node: &Node, allocation: AllocationId) -> HostResult<()> {
    node.journal.drop_ingress(allocation)?;
    node.dhcp.remove(&allocation.vm_name())?;
    port(node, allocation).await?;
    // a bridge that may have no rules keeps nobody from leaving it
    if node.network_rules.foreign_ports().await?.is_empty() {
        node.network_rules.put().await?;
    }
    Ok(())
}

/// Removes the port of a VM that does not run, with the rows of its limits: libvirt leaves them in the switch's database when
/// the VM ends, and gives a port that is made anew nothing of them while they are there (D-60).
pub async fn port(node: &Node, allocation: AllocationId) -> HostResult<()> {
    let network = &node.settings.network;
    if network.bridge_kind != BridgeKind::Ovs {
        return Ok(());
    }
    port_of(&network.bridge, &allocation.port_name()).await
}

/// In two transactions: the switch's database refuses to destroy what the port still refers to, also in the one that removes
/// the port. libvirt has removed that before, unless the power failed and the database has it again.
async fn port_of(bridge: &str, port: &str) -> HostResult<()> {
    ovs_vsctl(&["--if-exists", "del-port", bridge, port]).await?;
    let of_port = format!("external_ids:ifname={port}");
    let mut rows = Vec::new();
    for table in LIMITS {
        let found = ovs_vsctl(&["--bare", "--columns=_uuid", "find", table, &of_port]).await?;
        rows.extend(found.split_whitespace().map(|row| (table, row.to_owned())));
    }
    let destroys = rows
        .iter()
        .flat_map(|(table, row)| ["--", "destroy", table, row]);
    // the first command has nothing before it
    let arguments: Vec<&str> = destroys.skip(1).collect();
    match arguments.is_empty() {
        true => Ok(()),
        false => ovs_vsctl(&arguments).await.map(drop),
    }
}

/// Removes the rescue disk.
pub async fn rescue(node: &Node, allocation: AllocationId) -> HostResult<()> {
    let folder = node.rescue_dir(&allocation.vm_name());
    remove_folder(&folder, "cannot remove the rescue disk")
}

/// Removes the seed.
pub async fn seed(node: &Node, allocation: AllocationId) -> HostResult<()> {
    let folder = node.seed_dir(&allocation.vm_name());
    remove_folder(&folder, "cannot remove the seed")
}

/// Here, not on another thread: when a step is dropped, its removal must not go on under what the next step writes.
fn remove_folder(folder: &Path, failed: &'static str) -> HostResult<()> {
    blocking::here(|| match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error(failed)(error)),
        _ => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use gpuaas_dev::until::until;

    use super::*;
    use crate::played;

    const NAME: &str =
        "operation::remove::tests::d_60_inc_20_a_port_goes_with_its_own_limits_and_no_others";

    /// With a database of the switch of its own, which no switch carries out.
    #[tokio::test]
    async fn d_60_inc_20_a_port_goes_with_its_own_limits_and_no_others() {
        if let Some(folder) = played::folder() {
            return on_a_switch_with_limits(&folder).await;
        }
        let script = r#"#!/bin/sh
exec /usr/bin/ovs-vsctl --no-wait --db="unix:$GPUAAS_TEST_PLAYED/db.sock" "$@"
"#;
        played::run_again(NAME, &["ovs-vsctl"], script);
    }

    /// The server of a switch's database; it ends with the test.
    struct Database(Child);

    impl Database {
        async fn start(folder: &Path) -> Self {
            let file = folder.join("conf.db");
            let schema = "/usr/share/openvswitch/vswitch.ovsschema";
            let mut made = Command::new("ovsdb-tool");
            made.arg("create").arg(&file).arg(schema);
            assert!(made.status().expect("ovsdb-tool").success());
            let socket = folder.join("db.sock");
            let server = Command::new("ovsdb-server")
                .arg(&file)
                .arg(format!("--remote=punix:{}", socket.display()))
                .arg(format!("--unixctl={}", folder.join("ctl").display()))
                .spawn();
            let own = Self(server.expect("ovsdb-server"));
            until(
                "the database",
                std::time::Duration::from_secs(20),
                async || socket.exists().then_some(()),
            )
            .await;
            own
        }
    }

    impl Drop for Database {
        fn drop(&mut self) {
            let _it_may_have_ended = self.0.kill();
            let _it_is_gone = self.0.wait();
        }
    }

    /// A port with limits, as libvirt makes it.
    async fn limited(name: &str) {
        let of_port = format!("external_ids:ifname={name}");
        ovs_vsctl(&[
            "add-port",
            "ovsbr0",
            name,
            "--",
            "set",
            "port",
            name,
            "qos=@qos",
            "--",
            "--id=@qos",
            "create",
            "qos",
            "type=linux-htb",
            "queues:0=@queue",
            &of_port,
            "--",
            "--id=@queue",
            "create",
            "queue",
            "other_config:max-rate=2000000",
            &of_port,
        ])
        .await
        .expect("a port");
    }

    async fn rows(table: &str) -> usize {
        let listed = ovs_vsctl(&["--bare", "--columns=_uuid", "list", table]).await;
        listed.expect("rows").split_whitespace().count()
    }

    async fn on_a_switch_with_limits(folder: &Path) {
        let _database = Database::start(folder).await;
        ovs_vsctl(&["add-br", "ovsbr0"]).await.expect("a bridge");
        let (own, other) = ("gs0123456789aa", "gs0123456789bb");
        limited(other).await;
        // the power failed after libvirt had removed the port, and the database did not keep that
        limited(own).await;
        port_of("ovsbr0", own).await.expect("removed");
        assert_eq!((rows("qos").await, rows("queue").await), (1, 1));
        // libvirt removed the port and left its limits
        limited(own).await;
        ovs_vsctl(&["del-port", own]).await.expect("removed");
        assert_eq!((rows("qos").await, rows("queue").await), (2, 2));
        for _again in 0..2 {
            port_of("ovsbr0", own).await.expect("removed");
            assert_eq!((rows("qos").await, rows("queue").await), (1, 1));
        }
        assert_eq!(
            ovs_vsctl(&["list-ports", "ovsbr0"])
                .await
                .expect("ports")
                .trim(),
            other
        );
    }
}
