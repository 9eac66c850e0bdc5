//! `certificate`: the wipe certificates of an allocation.
use std::path::{Path, PathBuf};

use gpuaas_proto::gpuaas::allocation::v1::{ListWipeCertificatesRequest, WipeCertificate};
use serde_json::{Value, json};

use super::select::SelectedOf;
use crate::allocation::AllocationRef;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time};
use crate::session::Session;

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    of: AllocationRef,
    #[command(flatten)]
    selected: SelectedOf<ListWipeCertificatesRequest>,
    #[command(flatten)]
    save: Save,
}

/// Where documents go.
#[derive(Debug, clap::Args)]
pub struct Save {
    /// Write the signed documents into this folder, one file per wipe; it must exist.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: &Flags) -> Result<(), Failure> {
    let id = flags.of.id(&session.api).await?;
    let request = ListWipeCertificatesRequest {
        allocation_id: id,
        filter: flags.selected.filter(),
        order_by: flags.selected.order_by(),
        ..ListWipeCertificatesRequest::default()
    };
    let answer = session.api.call_all_pages(&request, "certificates").await?;
    let none = match flags.selected.narrows() {
        true => "No proven wipe of this allocation matches the filter.",
        false => {
            "No disk of this allocation is proven wiped: it is not released yet, never had a disk, or its slots await a \
             repair."
        }
    };
    let listed = &answer.json["certificates"];
    show(
        session,
        listed,
        answer.message.certificates,
        &flags.save,
        none,
    )
}

/// Shows wipe certificates, and saves their documents.
///
/// # Errors
/// A file that cannot be written.
pub fn show(
    session: &Session,
    listed: &Value,
    certificates: Vec<WipeCertificate>,
    save: &Save,
    none: &str,
) -> Result<(), Failure> {
    let mut saved = Vec::new();
    if let Some(folder) = &save.folder {
        for one in certificates.iter().filter(|one| !one.document.is_empty()) {
            saved.push(write(folder, one)?);
        }
    }
    if session.json() {
        let listed = listed.as_array().map_or(&[][..], Vec::as_slice);
        print_json(&json!({ "certificates": listed }));
        return Ok(());
    }
    if certificates.is_empty() {
        say!("{none}");
        return Ok(());
    }
    let rows = certificates.into_iter().map(|one| {
        let signed = if one.document.is_empty() { "no" } else { "yes" };
        [
            one.slot_id,
            one.slot_generation.to_string(),
            one.policy,
            one.erase_method,
            time(one.accept_time),
            signed.to_owned(),
        ]
    });
    print_table(
        [
            "SLOT ID",
            "GENERATION",
            "POLICY",
            "METHOD",
            "ACCEPTED",
            "SIGNED",
        ],
        rows.collect(),
    );
    for file in saved {
        say!("Saved {}", file.display());
    }
    Ok(())
}

fn write(folder: &Path, one: &WipeCertificate) -> Result<PathBuf, Failure> {
    // a name of the answer's making must not lead out of the folder
    uuid::Uuid::parse_str(&one.slot_id)
        .map_err(|_| Failure::Local("the API answers with a malformed slot id".to_owned()))?;
    let file = folder.join(format!("wipe-{}-{}.json", one.slot_id, one.slot_generation));
    std::fs::write(&file, &one.document)
        .map_err(|error| Failure::Local(format!("cannot write {}: {error}", file.display())))?;
    Ok(file)
}
