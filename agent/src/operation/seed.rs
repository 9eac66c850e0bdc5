//! The seed of a VM's first boot from an image, of a launch as of a rescue: user, keys and the host key that the VM proves
//! itself with.
use gpuaas_common::user_data::UserData;
use gpuaas_proto::gpuaas::common::v1::DriverStrategy;
use serde_json::json;

use super::work::{Done, Work};
use crate::error::HostResult;
use crate::guest::HostKey;
use crate::host::blocking;
use crate::image::seed::{Seed, hostname, make_folder, write_iso};

/// What a caller says of the guest.
pub struct Guest<'a> {
    pub hostname: &'a str,
    pub user: &'a str,
    pub ssh_public_keys: &'a [String],
    pub drivers: DriverStrategy,
    /// The tenant's own; empty: none.
    pub user_data: &'a str,
}

/// Writes it, and records the host key.
pub async fn write(work: &Work, guest: Guest<'_>) -> HostResult<Done> {
    let mut keys = Vec::new();
    let callers = guest.ssh_public_keys.iter().map(String::as_str);
    for key in callers.chain([work.node.relay.public()]) {
        keys.push(key.parse()?);
    }
    let (name, user) = (hostname(guest.hostname)?, guest.user.parse()?);
    let folder = work.node.seed_dir(&work.vm());
    // here, not on another thread: nothing may still be written once a cancelled step's seed is removed
    let host_key = blocking::here(|| {
        make_folder(&folder)?;
        // of the file when this step runs again: a guest may have booted with it already
        HostKey::load_or_create(&work.node.seed_host_key(&work.vm()))
    })?;
    let public = host_key.public().to_owned();
    let seed = Seed {
        allocation: work.operation.allocation,
        hostname: name,
        user,
        keys,
        drivers: guest.drivers,
        user_data: UserData::optional(guest.user_data)?,
        host_key,
    };
    write_iso(&seed, &folder, &work.node.seed_iso(&work.vm())).await?;
    Ok(Done::giving("seed written", json!({ "host_key": public })))
}
