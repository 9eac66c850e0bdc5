//! `rename`: the name for people of an allocation.
use gpuaas_proto::gpuaas::allocation::v1::UpdateAllocationRequest;

use super::Session;
use crate::allocation::AllocationRef;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    of: AllocationRef,
    /// New display name, one line; empty: show the name instead.
    display_name: String,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: &Flags) -> Result<(), Failure> {
    let id = flags.of.id(&session.api).await?;
    let name = &flags.display_name;
    let request = UpdateAllocationRequest {
        allocation_id: id.clone(),
        display_name: Some(name.clone()),
        ..UpdateAllocationRequest::default()
    };
    let answer = session.api.apply(&request, &session.key).await?;
    let sentence = match name.trim() {
        "" => format!("{id} has no display name now."),
        name => format!("{id} is now called {name}. Its host name does not change."),
    };
    super::done(session, &answer.json, &sentence);
    Ok(())
}
