//! Short tokens for API keys: signed by the gateway itself, for itself alone.
//!
//! The key that signs is that of internal tokens; issuer and audience keep the two apart, so a service takes none of these
//! and the edge none of those. A token does what its API key does at the time of the call, and nothing once the key is gone.
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use tonic::Code;
use uuid::Uuid;

use super::verify::Identity;
use crate::error::ApiError;

/// Lifetime of a token in seconds.
pub const SECONDS: i64 = 600;
const AUDIENCE: &str = "gpuaas-api";

#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    sub: String,
    /// Id of the API key.
    key: Uuid,
    iat: i64,
    exp: i64,
}

#[derive(Deserialize)]
struct Unverified {
    iss: String,
}

/// Makes and checks short tokens.
pub struct ShortTokens {
    issuer: String,
    encoding: EncodingKey,
    decoding: DecodingKey,
    validation: Validation,
}

/// The issuer of a cell's service accounts: of their principals and of their short tokens.
pub fn issuer_of(cell: u16) -> String {
    format!("urn:gpuaas:cell:{cell}")
}

impl ShortTokens {
    /// From the Ed25519 private key of internal tokens, PKCS#8 PEM.
    ///
    /// # Errors
    /// A malformed key.
    pub fn from_pem(pem: &str, cell: u16) -> anyhow::Result<Self> {
        let encoding = EncodingKey::from_ed_pem(pem.as_bytes())?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(encoding.as_bytes())
            .map_err(|error| anyhow::anyhow!("not an Ed25519 key: {error}"))?;
        let public = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
        let issuer = issuer_of(cell);
        let mut validation = Validation::new(Algorithm::EdDSA);
        // its own clock, or that of a gateway beside it
        validation.leeway = 0;
        validation.set_audience(&[AUDIENCE]);
        validation.set_issuer(&[&issuer]);
        validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
        Ok(Self {
            issuer,
            encoding,
            decoding: DecodingKey::from_ed_components(&public)?,
            validation,
        })
    }

    /// The issuer of its tokens.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// A token for whoever came with an API key, and when it expires; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// Signing failed.
    pub fn sign(
        &self,
        subject: &str,
        key: Uuid,
        key_expires: i64,
        now: i64,
    ) -> Result<(String, i64), jsonwebtoken::errors::Error> {
        let claims = Claims {
            iss: self.issuer.clone(),
            aud: AUDIENCE.to_owned(),
            sub: subject.to_owned(),
            key,
            iat: now,
            exp: now.saturating_add(SECONDS).min(key_expires),
        };
        let header = Header {
            typ: Some("at+jwt".to_owned()),
            ..Header::new(Algorithm::EdDSA)
        };
        let token = jsonwebtoken::encode(&header, &claims, &self.encoding)?;
        Ok((token, claims.exp))
    }

    /// Who a token of this gateway is of; `None` for any other's.
    pub fn verify(&self, token: &str) -> Option<Result<Identity, ApiError>> {
        let claimed = jsonwebtoken::dangerous::insecure_decode_claims::<Unverified>(token).ok()?;
        (claimed.iss == self.issuer).then(|| self.check(token))
    }

    fn check(&self, token: &str) -> Result<Identity, ApiError> {
        let refused = |reason, message: &str| ApiError::new(Code::Unauthenticated, reason, message);
        let checked = jsonwebtoken::decode::<Claims>(token, &self.decoding, &self.validation)
            .map_err(|error| match error.kind() {
                ErrorKind::ExpiredSignature => refused(
                    ErrorReason::CredentialExpired,
                    "The token has expired. Exchange the API key again.",
                ),
                _ => refused(
                    ErrorReason::CredentialInvalid,
                    "The token is not accepted: its signature or claims are wrong.",
                ),
            })?;
        let Claims { sub, key, exp, .. } = checked.claims;
        Ok(Identity {
            issuer: self.issuer.clone(),
            subject: sub,
            expires: exp,
            key: Some(key),
            is_short: true,
            second_factor: true,
            ..Identity::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem() -> String {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("key");
        pair.serialize_pem()
    }

    fn now() -> i64 {
        jiff::Timestamp::now().as_second()
    }

    #[test]
    fn a_token_is_that_of_one_key_for_ten_minutes_and_no_longer_than_the_key() {
        let tokens = ShortTokens::from_pem(&pem(), 1).expect("key");
        let key = Uuid::now_v7();
        let (token, expires) = tokens.sign("a", key, i64::MAX, now()).expect("signed");
        assert!((SECONDS - 2..=SECONDS).contains(&(expires - now())));
        let identity = tokens.verify(&token).expect("ours").expect("good");
        assert_eq!((identity.subject.as_str(), identity.key), ("a", Some(key)));
        assert_eq!(identity.issuer, issuer_of(1));
        let ends = now() + 5;
        let (_, expires) = tokens.sign("a", key, ends, now()).expect("signed");
        assert_eq!(expires, ends);
    }

    #[test]
    fn tokens_of_others_are_not_taken_for_it() {
        let pem = pem();
        let tokens = ShortTokens::from_pem(&pem, 1).expect("key");
        let reason = |token: &str| {
            tokens
                .verify(token)
                .map(|checked| checked.expect_err("refused").reason().to_owned())
        };
        let sign = |tokens: &ShortTokens, now| {
            let signed = tokens.sign("a", Uuid::nil(), i64::MAX, now);
            signed.expect("signed").0
        };
        let forged = ShortTokens::from_pem(&self::pem(), 1).expect("key");
        assert_eq!(
            reason(&sign(&forged, now())).as_deref(),
            Some("CREDENTIAL_INVALID")
        );
        assert_eq!(
            reason(&sign(&tokens, now() - 700)).as_deref(),
            Some("CREDENTIAL_EXPIRED")
        );
        let other_cell = ShortTokens::from_pem(&pem, 2).expect("key");
        assert_eq!(reason(&sign(&other_cell, now())), None);
        // what the same key signs for services
        let minter = gpuaas_common::identity::TokenMinter::from_pem(&pem).expect("key");
        let internal = minter.mint("billing", "user:a", &[], true, now());
        assert_eq!(reason(&internal.expect("minted")), None);
        assert_eq!(reason("rubbish"), None);
        // and no service takes a short one
        let public = rcgen::KeyPair::from_pem(&pem)
            .expect("key")
            .public_key_pem();
        let verifier = gpuaas_common::identity::TokenVerifier::from_pem(&public, "gpuaas-api");
        let verified = verifier.expect("key").verify(&sign(&tokens, now()));
        assert!(verified.is_err());
    }
}
