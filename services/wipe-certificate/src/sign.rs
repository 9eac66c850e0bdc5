//! Signing, by a host.
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};

use crate::chain::{self, HostKey};
use crate::{Document, Statement, TYPE};

/// Why a statement was not signed. Names nothing of the key.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The chain begins with no certificate of a host.
    #[error("the certificate chain begins with no certificate of a host")]
    Chain,
    /// The key is malformed or of another kind than the certificate's.
    #[error("the private key is malformed, or of another kind than the certificate's")]
    Key,
    /// The statement cannot be encoded.
    #[error("the statement cannot be encoded")]
    Statement,
}

/// The certificate of a statement: `key_pem` is the host's private key (PKCS#8), `chain_pem` its certificate with those up to
/// its authority. Fills in whose key signs.
///
/// # Errors
/// [`SignError`].
pub fn sign(mut statement: Statement, key_pem: &str, chain_pem: &str) -> Result<String, SignError> {
    let chain = chain::read(chain_pem).ok_or(SignError::Chain)?;
    let host = HostKey::of(&chain[0]).ok_or(SignError::Chain)?;
    statement.key_id = host.id;
    let key = match host.algorithm {
        Algorithm::EdDSA => EncodingKey::from_ed_pem(key_pem.as_bytes()),
        _ => EncodingKey::from_ec_pem(key_pem.as_bytes()),
    };
    let key = key.map_err(|_| SignError::Key)?;
    let mut header = Header::new(host.algorithm);
    header.typ = Some(TYPE.to_owned());
    header.kid = Some(statement.key_id.clone());
    header.x5c = Some(chain.iter().map(|one| STANDARD.encode(one)).collect());
    let document = Document {
        jws: encode(&header, &statement, &key).map_err(|_| SignError::Key)?,
        statement: serde_json::to_value(&statement).map_err(|_| SignError::Statement)?,
    };
    serde_json::to_string_pretty(&document).map_err(|_| SignError::Statement)
}
