//! The embedded issuer of development: signs tokens from a key file and publishes its public key.
//!
//! It exists so that the first start needs no identity provider. It is off unless configured, and a
//! token of it is checked by the same code as any other issuer's.
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use gpuaas_common::config::{ConfigError, read_secret};
use jiff::Timestamp;
use jsonwebtoken::jwk::{
    AlgorithmParameters, CommonParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm,
    OctetKeyPairParameters, OctetKeyPairType, PublicKeyUse, ThumbprintHash,
};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::secret_file;

/// Settings of the embedded issuer.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct DevIssuerSettings {
    /// Ed25519 private key, PKCS#8 PEM, mode 0600. Beside it lies a file that ends in `.sign-in`, mode 0600, with the
    /// code that the development sign-in demands: who can read neither is nobody.
    pub key_file: PathBuf,
    /// What principals of this issuer are registered with; it outlives a change of the address.
    pub issuer: String,
    /// The `aud` claim of access tokens.
    pub audience: String,
    /// Address at which browsers and programs of this machine reach the gateway, and the `iss` claim; the first of
    /// `server.listen` when absent.
    pub url: Option<String>,
    /// Lifetime of an access token of a sign-in, in seconds.
    pub token_seconds: u32,
}

impl Default for DevIssuerSettings {
    fn default() -> Self {
        Self {
            key_file: PathBuf::new(),
            issuer: "https://dev.gpuaas.localhost".to_owned(),
            audience: "gpuaas".to_owned(),
            url: None,
            token_seconds: 3600,
        }
    }
}

impl DevIssuerSettings {
    /// With the address that follows from where the gateway listens, unless one is set.
    #[must_use]
    pub fn reached_at(mut self, listen: &[SocketAddr], tls: bool) -> Self {
        let scheme = if tls { "https" } else { "http" };
        if let (None, Some(address)) = (&self.url, listen.first()) {
            let host = match address {
                SocketAddr::V6(v6) if v6.ip().is_loopback() => "[::1]",
                _ => "127.0.0.1",
            };
            self.url = Some(format!("{scheme}://{host}:{}", address.port()));
        }
        self
    }

    /// File with the code of the development sign-in.
    pub fn code_file(&self) -> PathBuf {
        self.key_file.with_extension("sign-in")
    }
}

/// Why the embedded issuer cannot work.
#[derive(Debug, thiserror::Error)]
pub enum DevIssuerError {
    /// The key file.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// The file is no Ed25519 key.
    #[error("{path} is not an Ed25519 private key in PKCS#8 PEM")]
    Key {
        /// The file.
        path: PathBuf,
    },
    /// A new key cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Signing failed.
    #[error("cannot sign a token")]
    Sign(#[from] jsonwebtoken::errors::Error),
}

/// What a token of the embedded issuer says.
#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    sub: String,
    iat: i64,
    nbf: i64,
    exp: i64,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// What an access token and an id token are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// To call the API with.
    Access,
    /// To tell this client who has signed in.
    Id(&'a str),
}

/// The embedded issuer.
pub struct DevIssuer {
    settings: DevIssuerSettings,
    key: EncodingKey,
    public: Jwk,
    code: String,
}

impl DevIssuer {
    /// Reads the key file and the code.
    ///
    /// # Errors
    /// Unreadable, exposed to others, or not a key.
    pub fn open(settings: DevIssuerSettings) -> Result<Self, DevIssuerError> {
        let pem = read_secret("gateway.dev_issuer.key_file", &settings.key_file)?;
        let (key, public) = parse(&pem).ok_or_else(|| DevIssuerError::Key {
            path: settings.key_file.clone(),
        })?;
        let code = read_secret("gateway.dev_issuer.key_file", &settings.code_file())?;
        Ok(Self {
            settings,
            key,
            public,
            code,
        })
    }

    /// Whether this is the code of the development sign-in. Takes the same time for every wrong one.
    pub fn is_code(&self, given: &str) -> bool {
        verify_slices_are_equal(given.as_bytes(), self.code.as_bytes()).is_ok()
    }

    /// Like [`DevIssuer::open`], but makes key and code when their files do not exist.
    ///
    /// # Errors
    /// Unreadable, exposed to others, not a key, or not writable.
    pub fn open_or_create(settings: DevIssuerSettings) -> Result<Self, DevIssuerError> {
        let no_key = || DevIssuerError::Key {
            path: settings.key_file.clone(),
        };
        if !settings.key_file.exists() {
            create(&settings.key_file, &new_key().ok_or_else(no_key)?)?;
        }
        if !settings.code_file().exists() {
            create(&settings.code_file(), &new_code().ok_or_else(no_key)?)?;
        }
        Self::open(settings)
    }

    /// Seconds that a token of this issuer for this subject still lives; `None` for any other text.
    pub fn remaining_seconds(&self, token: &str, subject: &str, now: Timestamp) -> Option<i64> {
        let key = DecodingKey::from_jwk(&self.public).ok()?;
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_issuer(&self.names());
        validation.set_audience(&[&self.settings.audience]);
        let claims = jsonwebtoken::decode::<Claims>(token, &key, &validation)
            .ok()?
            .claims;
        (claims.sub == subject).then_some(claims.exp - now.as_second())
    }

    /// The claims of a token that was signed here, expired or not, whatever its audience.
    pub fn read(&self, token: &str) -> Option<Map<String, Value>> {
        let key = DecodingKey::from_jwk(&self.public).ok()?;
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_issuer(&[self.address()]);
        validation.validate_aud = false;
        validation.validate_exp = false;
        validation.set_required_spec_claims(&["iss"]);
        let read = jsonwebtoken::decode::<Map<String, Value>>(token, &key, &validation);
        Some(read.ok()?.claims)
    }

    /// What principals are registered with.
    pub fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    /// The `iss` of its tokens: where it is reached.
    pub fn address(&self) -> &str {
        let url = self.settings.url.as_deref();
        url.unwrap_or(&self.settings.issuer).trim_end_matches('/')
    }

    /// Each `iss` that a token of it may have.
    pub fn names(&self) -> Vec<&str> {
        let mut names = vec![self.issuer(), self.address()];
        names.dedup();
        names
    }

    /// Lifetime of an access token of a sign-in, in seconds.
    pub fn token_seconds(&self) -> i64 {
        self.settings.token_seconds.into()
    }

    /// The `aud` of its tokens.
    pub fn audience(&self) -> &str {
        &self.settings.audience
    }

    /// Its public key, as served at `/.well-known/jwks.json`.
    pub fn key_set(&self) -> JwkSet {
        JwkSet {
            keys: vec![self.public.clone()],
        }
    }

    /// Signs an access token for a subject, valid from `now` for `seconds`.
    ///
    /// # Errors
    /// Signing failed.
    pub fn sign(
        &self,
        subject: &str,
        now: Timestamp,
        seconds: i64,
    ) -> Result<String, DevIssuerError> {
        self.sign_with(Kind::Access, subject, now, seconds, Map::new())
    }

    /// Signs a token with further claims.
    ///
    /// # Errors
    /// Signing failed.
    pub fn sign_with(
        &self,
        kind: Kind<'_>,
        subject: &str,
        now: Timestamp,
        seconds: i64,
        more: Map<String, Value>,
    ) -> Result<String, DevIssuerError> {
        let now = now.as_second();
        let (audience, typ) = match kind {
            Kind::Access => (self.audience(), "at+jwt"),
            Kind::Id(client) => (client, "JWT"),
        };
        let claims = Claims {
            iss: self.address().to_owned(),
            aud: audience.to_owned(),
            sub: subject.to_owned(),
            iat: now,
            nbf: now,
            exp: now + seconds,
            more,
        };
        let header = Header {
            kid: self.public.common.key_id.clone(),
            typ: Some(typ.to_owned()),
            ..Header::new(Algorithm::EdDSA)
        };
        Ok(jsonwebtoken::encode(&header, &claims, &self.key)?)
    }
}

impl std::fmt::Debug for DevIssuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DevIssuer")
            .field("issuer", &self.settings.issuer)
            .finish_non_exhaustive()
    }
}

fn create(path: &Path, content: &str) -> Result<(), DevIssuerError> {
    match secret_file::create(path, content) {
        // another process was faster; what it made counts
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(DevIssuerError::Write {
            path: path.to_owned(),
            source,
        }),
        Ok(()) => Ok(()),
    }
}

/// A code that nobody guesses.
fn new_code() -> Option<String> {
    let mut bytes = [0; 24];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

fn parse(pem: &str) -> Option<(EncodingKey, Jwk)> {
    let key = EncodingKey::from_ed_pem(pem.as_bytes()).ok()?;
    // accepts PKCS#8 with and without the public half, as different tools write it
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(key.as_bytes()).ok()?;
    let mut public = Jwk {
        common: CommonParameters {
            key_algorithm: Some(KeyAlgorithm::EdDSA),
            public_key_use: Some(PublicKeyUse::Signature),
            ..Default::default()
        },
        algorithm: AlgorithmParameters::OctetKeyPair(OctetKeyPairParameters {
            key_type: OctetKeyPairType::OctetKeyPair,
            curve: EllipticCurve::Ed25519,
            x: URL_SAFE_NO_PAD.encode(pair.public_key().as_ref()),
        }),
    };
    public.common.key_id = Some(public.thumbprint(ThumbprintHash::SHA256).ok()?);
    Some((key, public))
}

/// Makes a private key in PKCS#8 PEM.
fn new_key() -> Option<String> {
    let document = Ed25519KeyPair::generate()
        .and_then(|pair| pair.to_pkcs8v1())
        .ok()?;
    let body = STANDARD.encode(document.as_ref());
    let lines: Vec<&str> = body
        .as_bytes()
        .chunks(64)
        .filter_map(|line| std::str::from_utf8(line).ok())
        .collect();
    Some(format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        lines.join("\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_its_tokens_live_as_long_as_they_say() {
        let dir = tempfile::tempdir().expect("temp dir");
        let settings = DevIssuerSettings {
            key_file: dir.path().join("key.pem"),
            ..DevIssuerSettings::default()
        };
        let first = DevIssuer::open_or_create(settings.clone()).expect("made");
        let again = DevIssuer::open_or_create(settings).expect("opened");
        assert_eq!(first.key_set(), again.key_set());
        assert!(again.is_code(&first.code));
        assert!(!again.is_code("") && !again.is_code(&first.code[1..]));
        let now = Timestamp::now();
        let token = first.sign("alice", now, 600).expect("signed");
        assert_eq!(again.remaining_seconds(&token, "alice", now), Some(600));
        assert_eq!(again.remaining_seconds(&token, "bob", now), None);
        assert_eq!(again.remaining_seconds("rubbish", "alice", now), None);
    }
}
