//! Wipe certificates: those of a slot, and the verification of one without the platform.
use std::path::{Path, PathBuf};

use gpuaas_proto::gpuaas::allocation::v1::ListSlotWipeCertificatesRequest;
use gpuaas_wipe_certificate::{Statement, verify};
use serde_json::json;

use super::Session;
use super::slots::SlotRef;
use crate::commands::certificate::{Save, show};
use crate::commands::select::{Selected, SelectedOf};
use crate::failure::Failure;
use crate::formats;
use crate::output::{print_json, print_line, size, time};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the wipe certificates of a slot, newest first.
    List {
        #[command(flatten)]
        slot: SlotRef,
        #[command(flatten)]
        selected: SelectedOf<ListSlotWipeCertificatesRequest>,
        #[command(flatten)]
        save: Save,
    },
    /// Verify a wipe certificate offline. Exits with 1 if it was changed, is from another authority, or was signed while the
    /// host's certificate was not valid.
    Verify(VerifyFlags),
}

#[derive(Debug, clap::Args)]
pub struct VerifyFlags {
    /// File with the certificate, as `gpuaas certificate` saves it.
    file: PathBuf,
    /// File with the certificate of the hosts' authority, in PEM.
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
}

pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List {
            slot,
            selected,
            save,
        } => list(session, &slot, &selected, &save).await,
        Command::Verify(flags) => verify_file(&flags),
    }
}

async fn list(
    session: &Session,
    slot: &SlotRef,
    selected: &Selected,
    save: &Save,
) -> Result<(), Failure> {
    let (node, slot) = slot.resolve(session).await?;
    let request = ListSlotWipeCertificatesRequest {
        node_id: node,
        slot_id: slot,
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListSlotWipeCertificatesRequest::default()
    };
    let answer = session.api.call_all_pages(&request, "certificates").await?;
    let listed = &answer.json["certificates"];
    let none = match selected.narrows() {
        true => "No proven wipe of this slot matches the filter.",
        false => "No wipe of this slot is proven.",
    };
    show(session, listed, answer.message.certificates, save, none)
}

/// Verifies a file. Asks nobody.
///
/// # Errors
/// A file that cannot be read; a certificate that proves nothing, with the reason.
pub fn verify_file(flags: &VerifyFlags) -> Result<(), Failure> {
    let (document, authority) = (read(&flags.file)?, read(&flags.ca)?);
    let said = verify(&document, &authority).map_err(|refusal| {
        Failure::Local(format!(
            "{} proves nothing: {refusal}",
            flags.file.display()
        ))
    })?;
    if formats::chosen().is_data() {
        print_json(&json!({ "valid": true, "statement": said }));
    } else {
        print(&said);
    }
    Ok(())
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))
}

fn print(said: &Statement) {
    let (device, proof) = (&said.device, &said.verification);
    say!("The certificate is valid. The host stated:");
    print_line("Result", &said.result);
    print_line("Method", &said.method);
    print_line("Policy", &said.policy);
    print_line("Disk", &device.identity);
    print_line("Model", &device.model);
    print_line("Serial", &device.serial);
    print_line("WWID", &device.wwid);
    print_line("Size", &size(device.bytes));
    let read_back = format!(
        "{} read back as zero ({})",
        size(proof.verified_bytes),
        proof.scope
    );
    print_line("Proof", &read_back);
    print_line("Began", &time(Some(said.start_time)));
    print_line("Ended", &time(Some(said.end_time)));
    print_line("Signed", &time(Some(said.sign_time)));
    let slot = format!("{}, generation {}", said.slot_id, said.generation);
    print_line("Slot", &slot);
    print_line("Allocation", &said.allocation_id);
    print_line("Node", &said.node_id);
    print_line("Instance", &said.instance_id);
    print_line("Key", &said.key_id);
}
