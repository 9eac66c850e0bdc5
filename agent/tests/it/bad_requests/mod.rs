//! Requests that no control plane of ours sends, over the agent's gRPC API: each is refused with its reason and its field, and
//! changes nothing.
mod launch;
mod lease;
mod power;
mod queries;
mod world;

use std::fmt::Debug;

use gpuaas_common::Error;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::{Response, Status};

const MEGABYTE: usize = 1 << 20;

/// Texts that would lead out of a folder, end a string early, add an element to an XML document, a line to a file or a word to a
/// command, or fill a disk.
fn bad_texts() -> Vec<String> {
    let short = [
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "a/../../b",
        "a\0b",
        "a\nb",
        "'/><hostdev mode='subsystem'/><x y='",
        "\"><disk type='file'/>",
        "&lt;&#x0;]]>",
        "$(reboot)",
        "a b",
        "ä",
    ];
    let mut texts: Vec<String> = short.map(str::to_owned).into();
    texts.push("a".repeat(MEGABYTE));
    texts
}

/// What a refusal must name.
type Expected = (ErrorReason, &'static str);

fn invalid(field: &'static str) -> Expected {
    (ErrorReason::FieldInvalid, field)
}

fn refused<T: Debug>(what: &str, answer: Result<Response<T>, Status>, (reason, field): Expected) {
    let start: String = what.chars().take(120).collect();
    let status = match answer {
        Ok(answer) => panic!("{start}: accepted: {answer:?}"),
        Err(status) => status,
    };
    let error = Error::from(status);
    let fields: Vec<&str> = error.fields().iter().map(|(name, _)| &**name).collect();
    let named = Some(field).filter(|field| !field.is_empty());
    assert_eq!(
        (error.reason(), fields),
        (reason, Vec::from_iter(named)),
        "{start}: {error}"
    );
    assert!(error.message().len() < 1000, "{start}: it is echoed");
}

type Change<T> = Box<dyn Fn(&mut T, &str)>;

/// A field of a request with how it is set.
fn text<T>(field: &'static str, set: impl Fn(&mut T, &str) + 'static) -> (&'static str, Change<T>) {
    (field, Box::new(set))
}
