//! Secrets of webhooks: how they look, how they are sealed in the database, and how a delivery is signed with them
//! ([Standard Webhooks](https://www.standardwebhooks.com)).
use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use uuid::Uuid;

const PREFIX: &str = "whsec_";
const SECRET_BYTES: usize = 32;
const PURPOSE: &[u8] = b"gpuaas webhook secrets v1";

/// A secret. Its text is shown once.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; SECRET_BYTES]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// A new one; `None` when the system has no random bytes.
    pub fn random() -> Option<Self> {
        let mut bytes = [0; SECRET_BYTES];
        rand::fill(&mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// Its text, for its owner.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(self.0))
    }

    fn sign(&self, content: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        format!("v1,{}", STANDARD.encode(hmac::sign(&key, content)))
    }
}

/// The header `webhook-signature`: one signature for each secret.
pub fn signature(secrets: &[Secret], id: Uuid, timestamp: i64, body: &str) -> String {
    let content = format!("{id}.{timestamp}.{body}");
    let all: Vec<String> = secrets
        .iter()
        .map(|secret| secret.sign(content.as_bytes()))
        .collect();
    all.join(" ")
}

/// Seals secrets with a key that all gateways of a cell derive from the key of internal tokens. Who reads the database
/// alone can sign nothing.
pub struct Sealer(LessSafeKey);

/// What could not be sealed or opened; says nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret of the webhook cannot be sealed or opened with the gateways' key")]
pub struct SealError;

struct KeyLength;

impl hkdf::KeyType for KeyLength {
    fn len(&self) -> usize {
        SECRET_BYTES
    }
}

impl Sealer {
    /// From the text of the private key.
    ///
    /// # Errors
    /// No key can be derived.
    pub fn derive(internal_key: &str) -> Result<Self, SealError> {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, PURPOSE);
        let derived = salt.extract(internal_key.trim().as_bytes());
        let mut key = [0; SECRET_BYTES];
        let filled = derived.expand(&[PURPOSE], KeyLength);
        filled
            .and_then(|okm| okm.fill(&mut key))
            .map_err(|_| SealError)?;
        let key = UnboundKey::new(&AES_256_GCM, &key).map_err(|_| SealError)?;
        Ok(Self(LessSafeKey::new(key)))
    }

    /// Seals the secret of one webhook.
    ///
    /// # Errors
    /// No random bytes.
    pub fn seal(&self, webhook: Uuid, secret: &Secret) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).map_err(|_| SealError)?;
        let mut sealed = secret.0.to_vec();
        self.0
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(webhook.as_bytes()),
                &mut sealed,
            )
            .map_err(|_| SealError)?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Opens what was sealed for this webhook.
    ///
    /// # Errors
    /// It was sealed with another key, for another webhook, or was changed.
    pub fn open(&self, webhook: Uuid, sealed: &[u8]) -> Result<Secret, SealError> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN).ok_or(SealError)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError)?;
        let mut bytes = sealed.to_vec();
        let opened = self
            .0
            .open_in_place(nonce, Aad::from(webhook.as_bytes()), &mut bytes)
            .map_err(|_| SealError)?;
        let secret = <[u8; SECRET_BYTES]>::try_from(&*opened).map_err(|_| SealError)?;
        Ok(Secret(secret))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_for_its_webhook_and_key_alone() {
        let sealer = Sealer::derive("key").expect("derived");
        let secret = Secret::random().expect("random");
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let sealed = sealer.seal(one, &secret).expect("sealed");
        // another gateway with the same key
        let same = Sealer::derive("key\n").expect("derived");
        assert_eq!(same.open(one, &sealed), Ok(secret.clone()));
        assert_eq!(sealer.open(other, &sealed), Err(SealError));
        let foreign = Sealer::derive("another").expect("derived");
        assert_eq!(foreign.open(one, &sealed), Err(SealError));
        assert_eq!(sealer.open(one, &sealed[..8]), Err(SealError));
        assert!(!sealed.windows(SECRET_BYTES).any(|part| part == secret.0));
        assert!(!format!("{secret:?}").contains(&STANDARD.encode(secret.0)));
    }

    /// The example of the specification of Standard Webhooks.
    #[test]
    fn signatures_are_those_of_the_specification() {
        let bytes = STANDARD
            .decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
            .expect("base64");
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        let content = br#"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}"#;
        assert_eq!(
            STANDARD.encode(hmac::sign(&key, content)),
            "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
        let secret = Secret([7; SECRET_BYTES]);
        let id = Uuid::from_u128(9);
        let both = signature(&[secret.clone(), Secret([8; SECRET_BYTES])], id, 5, "{}");
        let first = secret.sign(format!("{id}.5.{{}}").as_bytes());
        let parts: Vec<&str> = both.split(' ').collect();
        assert_eq!((parts[0], parts.len()), (first.as_str(), 2));
        assert!(parts.iter().all(|part| part.starts_with("v1,")));
    }
}
