//! Identity tokens of VMs: who a VM is, signed with a key that only inventory has, for anyone to verify (issue 15).
//!
//! A host asks for its VMs and holds no key. The public keys are served by the gateway; a key that signed before is named
//! after the one that signs, until its tokens have expired.
use std::fmt;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use gpuaas_common::config::read_secret;
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Lifetime of a token in seconds.
pub const TOKEN_SECONDS: i64 = 600;
const ALGORITHM: Algorithm = Algorithm::ES256;

/// Settings of identity tokens of VMs; without keys there are none.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InstanceIdentityConfig {
    /// The `iss` of tokens: the gateway's address as verifiers reach it, with `/instance-identity` at its end.
    pub issuer: String,
    /// Private keys (ECDSA P-256 in PKCS#8 PEM, mode 0600). The first signs; all are published.
    pub key_files: Vec<PathBuf>,
}

/// What a token says; `sub` is for verifiers that compare one text.
#[derive(Debug, Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: String,
    aud: &'a str,
    iat: i64,
    nbf: i64,
    exp: i64,
    jti: Uuid,
    allocation_id: Uuid,
    project_id: Uuid,
    region: &'a str,
}

/// A VM, as the ledger and the node's row say.
#[derive(Debug, Clone, Copy)]
pub struct Vm<'a> {
    pub allocation_id: Uuid,
    pub project_id: Uuid,
    pub region: &'a str,
}

/// Issues tokens. The key stays in this type: no error, log line or `Debug` output shows it.
pub struct InstanceIdentity {
    issuer: String,
    kid: String,
    key: EncodingKey,
    key_set_json: String,
}

impl fmt::Debug for InstanceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstanceIdentity")
            .field("issuer", &self.issuer)
            .field("kid", &self.kid)
            .finish_non_exhaustive()
    }
}

impl InstanceIdentity {
    /// Of these settings; none without keys.
    ///
    /// # Errors
    /// An unreadable, exposed or malformed key file; no issuer.
    pub fn load(config: &InstanceIdentityConfig) -> anyhow::Result<Option<Self>> {
        const FILES: &str = "inventory.instance_identity.key_files";
        let mut all = Vec::new();
        for file in &config.key_files {
            let pem = read_secret(FILES, file)?;
            let malformed = || format!("setting {FILES}: no ECDSA P-256 key in PKCS#8 PEM");
            let key = EncodingKey::from_ec_pem(pem.as_bytes()).with_context(malformed)?;
            let mut public = Jwk::from_encoding_key(&key, ALGORITHM).with_context(malformed)?;
            let kid = public.thumbprint(ThumbprintHash::SHA256)?;
            public.common.key_id = Some(kid.clone());
            public.common.public_key_use = Some(PublicKeyUse::Signature);
            all.push((key, kid, public));
        }
        let keys = all.iter().map(|(_, _, public)| public.clone()).collect();
        let Some((key, kid, _)) = all.into_iter().next() else {
            return Ok(None);
        };
        ensure!(
            config.issuer.starts_with("https://") || config.issuer.starts_with("http://"),
            "setting inventory.instance_identity.issuer: must be a URL"
        );
        Ok(Some(Self {
            issuer: config.issuer.clone(),
            kid,
            key,
            key_set_json: serde_json::to_string(&JwkSet { keys })?,
        }))
    }

    /// The `iss` of every token.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The public keys (RFC 7517).
    pub fn key_set_json(&self) -> &str {
        &self.key_set_json
    }

    /// A token that is valid from `now` (seconds since 1970) for [`TOKEN_SECONDS`].
    ///
    /// # Errors
    /// Signing failed.
    pub fn issue(
        &self,
        vm: Vm<'_>,
        audience: &str,
        id: Uuid,
        now: i64,
    ) -> Result<String, jsonwebtoken::errors::Error> {
        let claims = Claims {
            iss: &self.issuer,
            sub: format!("project:{}:allocation:{}", vm.project_id, vm.allocation_id),
            aud: audience,
            iat: now,
            nbf: now,
            exp: now + TOKEN_SECONDS,
            jti: id,
            allocation_id: vm.allocation_id,
            project_id: vm.project_id,
            region: vm.region,
        };
        let header = Header {
            kid: Some(self.kid.clone()),
            ..Header::new(ALGORITHM)
        };
        jsonwebtoken::encode(&header, &claims, &self.key)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use jsonwebtoken::{DecodingKey, Validation};

    use super::*;

    fn config(folder: &std::path::Path, keys: &[&str]) -> InstanceIdentityConfig {
        let file = |name: &&str| {
            let file = folder.join(name);
            if !file.exists() {
                let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
                std::fs::write(&file, key.serialize_pem()).unwrap();
                std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
            }
            file
        };
        InstanceIdentityConfig {
            issuer: "https://api.example/instance-identity".to_owned(),
            key_files: keys.iter().map(file).collect(),
        }
    }

    fn verified(token: &str, key_set_json: &str) -> Option<serde_json::Value> {
        let kid = jsonwebtoken::decode_header(token).unwrap().kid.unwrap();
        let keys: JwkSet = serde_json::from_str(key_set_json).unwrap();
        let key = DecodingKey::from_jwk(keys.find(&kid)?).unwrap();
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_audience(&["https://vault.example"]);
        validation.set_issuer(&["https://api.example/instance-identity"]);
        Some(
            jsonwebtoken::decode(token, &key, &validation)
                .unwrap()
                .claims,
        )
    }

    #[test]
    fn anyone_verifies_a_token_also_after_its_key_was_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let load = |keys: &[&str]| {
            InstanceIdentity::load(&config(dir.path(), keys))
                .unwrap()
                .unwrap()
        };
        let vm = Vm {
            allocation_id: Uuid::from_u128(1),
            project_id: Uuid::from_u128(2),
            region: "eu-north",
        };
        let now = jiff::Timestamp::now().as_second();
        let first = load(&["first"]);
        let token = first
            .issue(vm, "https://vault.example", Uuid::from_u128(3), now)
            .unwrap();
        let claims = verified(&token, first.key_set_json()).unwrap();
        assert_eq!(claims["allocation_id"], vm.allocation_id.to_string());
        assert_eq!(claims["project_id"], vm.project_id.to_string());
        assert_eq!(claims["region"], "eu-north");
        assert_eq!(claims["exp"], now + 600);
        let subject = format!("project:{}:allocation:{}", vm.project_id, vm.allocation_id);
        assert_eq!(claims["sub"], subject);
        let second = load(&["second", "first"]);
        assert!(verified(&token, second.key_set_json()).is_some());
        assert!(verified(&token, load(&["second"]).key_set_json()).is_none());
        let keys: serde_json::Value = serde_json::from_str(second.key_set_json()).unwrap();
        for key in keys["keys"].as_array().unwrap() {
            assert!(key.get("d").is_none() && key["x"].is_string(), "{key}");
            assert_eq!((&key["alg"], &key["use"]), (&"ES256".into(), &"sig".into()));
        }
        assert!(!format!("{first:?}").contains("PRIVATE"));
    }

    #[test]
    fn keys_that_cannot_sign_are_named_by_their_setting() {
        let dir = tempfile::tempdir().unwrap();
        assert!(
            InstanceIdentity::load(&InstanceIdentityConfig::default())
                .unwrap()
                .is_none()
        );
        let mut without_issuer = config(dir.path(), &["key"]);
        without_issuer.issuer.clear();
        let good = config(dir.path(), &["key"]);
        std::fs::write(dir.path().join("bad"), "secret").unwrap();
        std::fs::set_permissions(dir.path().join("bad"), PermissionsExt::from_mode(0o600)).unwrap();
        let bad = config(dir.path(), &["key", "bad"]);
        for (config, setting) in [(without_issuer, "issuer"), (bad, "key_files")] {
            let error = format!("{:#}", InstanceIdentity::load(&config).unwrap_err());
            let setting = format!("inventory.instance_identity.{setting}");
            assert!(
                error.contains(&setting) && !error.contains("secret"),
                "{error}"
            );
        }
        let file = &good.key_files[0];
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o644)).unwrap();
        InstanceIdentity::load(&good).unwrap_err();
    }
}
