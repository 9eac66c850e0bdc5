//! Verifying, by anybody.
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::{Validation, decode, decode_header};
use rustls::pki_types::CertificateDer;
use serde::Deserialize;
use serde_json::Value;

use crate::chain::{self, HostKey};
use crate::{Document, ERASED, Refusal, Statement, TYPE, VERSION};

/// Verifies a certificate against the certificates (PEM) of the authority of hosts, and returns what the host stated. The
/// time that counts for the chain is that of the signature.
///
/// # Errors
/// [`Refusal`].
pub fn verify(document: &str, authority_pem: &str) -> Result<Statement, Refusal> {
    let Document { statement, jws } = serde_json::from_str(document)
        .map_err(|_| Refusal::Malformed("it is no JSON object with `statement` and `jws`"))?;
    let header = decode_header(&jws).map_err(|_| Refusal::Malformed("its signature"))?;
    if header.typ.as_deref() != Some(TYPE) {
        return Err(Refusal::Malformed("its signature is of something else"));
    }
    let chain: Option<Vec<CertificateDer<'static>>> = header.x5c.as_ref().and_then(|chain| {
        let decoded = chain.iter().map(|one| STANDARD.decode(one).ok());
        decoded.map(|der| der.map(Into::into)).collect()
    });
    let chain = chain.filter(|chain| !chain.is_empty());
    let chain = chain.ok_or(Refusal::Malformed("it has no certificate chain"))?;
    let host = HostKey::of(&chain[0]).ok_or(Refusal::Malformed(
        "the certificate in it is of no host's key",
    ))?;
    // by the certificate's key alone, whatever algorithm the header names
    let mut validation = Validation::new(host.algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    let signed: Value = decode(&jws, &host.key, &validation)
        .map_err(|_| Refusal::Signature)?
        .claims;
    if let Some(member) = difference(&signed, &statement) {
        return Err(Refusal::Changed(member));
    }
    let version = signed["version"].as_u64().unwrap_or_default();
    if version != u64::from(VERSION) {
        return Err(Refusal::Version(version));
    }
    let statement: Statement = serde_json::from_value(signed)
        .map_err(|_| Refusal::Malformed("its statement lacks members"))?;
    // a member that stands twice shows people another value than programs
    serde_json::from_str::<Shown>(document)
        .map_err(|_| Refusal::Malformed("a member of its statement stands twice"))?;
    chain::check(&chain, authority_pem, statement.sign_time)?;
    let named = (statement.node_id.clone(), statement.instance_id.clone());
    if host.host != Some(named) || host.id != statement.key_id {
        return Err(Refusal::OtherHost);
    }
    consistent(&statement)?;
    Ok(statement)
}

/// The document with every member read by its name, which is refused where one stands twice.
#[derive(Deserialize)]
struct Shown {
    #[serde(rename = "statement")]
    _statement: Statement,
}

/// The first member in which two objects differ.
fn difference(signed: &Value, shown: &Value) -> Option<String> {
    if signed == shown {
        return None;
    }
    let (Some(signed), Some(shown)) = (signed.as_object(), shown.as_object()) else {
        return Some("the statement".to_owned());
    };
    let mut names = signed.keys().chain(shown.keys());
    let differs = names.find(|name| signed.get(*name) != shown.get(*name));
    let nested = differs.and_then(|name| match (signed.get(name), shown.get(name)) {
        (Some(one @ Value::Object(_)), Some(other @ Value::Object(_))) => {
            Some(format!("{name}.{}", difference(one, other)?))
        }
        _ => Some(name.clone()),
    });
    nested.or_else(|| Some("the statement".to_owned()))
}

fn consistent(statement: &Statement) -> Result<(), Refusal> {
    let proof = &statement.verification;
    if statement.result != ERASED {
        return Err(Refusal::ProvesNothing("its result is another"));
    }
    if !proof.no_signatures {
        return Err(Refusal::ProvesNothing("signatures were left"));
    }
    if statement.device.bytes == 0 || proof.verified_bytes > statement.device.bytes {
        return Err(Refusal::ProvesNothing("the size of the disk"));
    }
    let whole = match proof.scope.as_str() {
        "whole" => proof.verified_bytes == statement.device.bytes,
        "samples" => proof.verified_bytes > 0,
        _ => false,
    };
    if !whole {
        return Err(Refusal::ProvesNothing("what was read back"));
    }
    let times = [
        statement.start_time,
        statement.end_time,
        proof.end_time,
        statement.sign_time,
    ];
    if times.is_sorted() {
        Ok(())
    } else {
        Err(Refusal::ProvesNothing("its times are out of order"))
    }
}
