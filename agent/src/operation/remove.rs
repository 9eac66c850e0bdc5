//! Removal of what a VM leaves on the host: domain, NVRAM, serial log, reservation, seed, port. Used by the undo of a
//! provision, by clean-up and by release (D-64, D-73); every part may be gone already.
use std::path::Path;
use std::sync::Arc;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::error::{HostError, HostResult, io_error};
use crate::host::blocking;
use crate::ids::AllocationId;
use crate::node::Node;
use crate::settings::BridgeKind;
use crate::vm_files;
use crate::wire::ovs_vsctl;

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
                blocking::here(|| vm_files::remove_nvram_of(node, allocation))?;
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
    if node.wire.foreign_ports().await?.is_empty() {
        node.wire.put().await?;
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

async fn port_of(bridge: &str, port: &str) -> HostResult<()> {
    let of_port = format!("external_ids:ifname={port}");
    let mut rows = Vec::new();
    for table in LIMITS {
        let found = ovs_vsctl(&["--bare", "--columns=_uuid", "find", table, &of_port]).await?;
        rows.push(found);
    }
    let mut arguments = vec!["--if-exists", "del-port", bridge, port];
    for (table, rows) in LIMITS.into_iter().zip(&rows) {
        for row in rows.split_whitespace() {
            arguments.extend(["--", "destroy", table, row]);
        }
    }
    ovs_vsctl(&arguments).await.map(drop)
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
    use super::*;
    use crate::played;

    const NAME: &str =
        "operation::remove::tests::d_60_a_port_goes_with_its_own_limits_and_no_others";

    /// With a program in place of the switch's, which records what it is asked.
    #[tokio::test]
    async fn d_60_a_port_goes_with_its_own_limits_and_no_others() {
        if let Some(folder) = played::folder() {
            return on_a_switch_with_limits(&folder).await;
        }
        let script = r#"#!/bin/sh
echo "$*" >> "$GPUAAS_TEST_PLAYED/asked"
case "$*" in
  *" find qos external_ids:ifname=gs0123456789aa") printf 'qos-1\n\nqos-2\n' ;;
  *" find queue external_ids:ifname=gs0123456789aa") echo queue-1 ;;
  *" external_ids:ifname=gs0123456789bb") ;;
  *" find "* | *" list "*) echo of-another ;;
esac
"#;
        played::run_again(NAME, &["ovs-vsctl"], script);
    }

    async fn on_a_switch_with_limits(folder: &Path) {
        let limits = " -- destroy qos qos-1 -- destroy qos qos-2 -- destroy queue queue-1";
        for (name, destroyed) in [("gs0123456789aa", limits), ("gs0123456789bb", "")] {
            port_of("ovsbr0", name).await.unwrap();
            let asked = std::fs::read_to_string(folder.join("asked")).unwrap();
            let expected = format!("--timeout=10 --if-exists del-port ovsbr0 {name}{destroyed}");
            assert_eq!(asked.lines().last(), Some(expected.as_str()), "{asked}");
        }
    }
}
