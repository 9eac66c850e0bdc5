//! Checks a bearer token: issuer known, algorithm pinned per issuer, key by id, audience, times.
use std::collections::HashMap;
use std::path::PathBuf;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use opentelemetry::metrics::Meter;
use serde::Deserialize;
use tonic::Code;
use url::Url;

use super::dev_issuer::DevIssuer;
use super::keys::{Fetches, KeySource, KeysError, RefreshSettings};
use crate::error::ApiError;

/// Clocks may differ by this much, in seconds.
pub const LEEWAY_SECONDS: u64 = 10;
/// No issuer writes longer tokens; longer ones are not parsed.
const MAX_TOKEN_BYTES: usize = 8192;

/// One trusted issuer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerSettings {
    /// The `iss` claim, exactly.
    pub issuer: String,
    /// The `aud` claim that names this API.
    pub audience: String,
    /// Accepted signature algorithms, for example `["RS256"]`. Symmetric ones are refused.
    pub algorithms: Vec<String>,
    /// Key set in a file.
    pub jwks_file: Option<PathBuf>,
    /// Address of the key set; https, or http on loopback.
    pub jwks_url: Option<Url>,
    /// When the key set of `jwks_url` is fetched again.
    #[serde(default)]
    pub jwks_refresh: RefreshSettings,
}

/// Why the configured issuers are not usable.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    /// A setting is wrong.
    #[error("issuer {issuer}: {problem}")]
    Setting {
        /// The issuer.
        issuer: String,
        /// What is wrong.
        problem: String,
    },
    /// Its keys are not usable.
    #[error("issuer {issuer}")]
    Keys {
        /// The issuer.
        issuer: String,
        /// Why.
        #[source]
        source: KeysError,
    },
}

/// A checked token: who the issuer says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The issuer.
    pub issuer: String,
    /// The issuer's name for the principal.
    pub subject: String,
    /// When the token stops to count, in seconds since 1970, with what clocks may differ by.
    pub expires: i64,
}

#[derive(Debug)]
struct Issuer {
    audience: String,
    algorithms: Vec<Algorithm>,
    keys: KeySource,
}

/// Checks tokens of all trusted issuers.
#[derive(Debug, Default)]
pub struct Verifier {
    issuers: HashMap<String, Issuer>,
}

#[derive(Deserialize)]
struct Unverified {
    iss: String,
}

#[derive(Deserialize)]
struct Verified {
    sub: String,
    exp: f64,
}

impl Verifier {
    /// From the settings, and the embedded issuer when there is one. Key sets with an address are fetched by tasks of
    /// the runtime from now on.
    ///
    /// # Errors
    /// An issuer that is named twice, has no key set, or allows an algorithm that proves nothing.
    pub fn new(
        settings: &[IssuerSettings],
        dev: Option<&DevIssuer>,
        meter: &Meter,
    ) -> Result<Self, IssuerError> {
        let mut issuers = HashMap::new();
        for issuer in settings {
            if issuers
                .insert(issuer.issuer.clone(), open(issuer, meter)?)
                .is_some()
            {
                return Err(problem(issuer, "is configured twice"));
            }
        }
        if let Some(dev) = dev {
            let embedded = Issuer {
                audience: dev.audience().to_owned(),
                algorithms: vec![Algorithm::EdDSA],
                keys: KeySource::fixed(dev.key_set()),
            };
            if issuers.insert(dev.issuer().to_owned(), embedded).is_some() {
                return Err(IssuerError::Setting {
                    issuer: dev.issuer().to_owned(),
                    problem: "is also the embedded issuer".to_owned(),
                });
            }
        }
        Ok(Self { issuers })
    }

    /// Checks a token.
    ///
    /// # Errors
    /// `CREDENTIAL_EXPIRED` or `CREDENTIAL_INVALID`; `DEPENDENCY_UNAVAILABLE` when the key may be one that the issuer
    /// has but the gateway has not fetched.
    pub async fn verify(&self, token: &str) -> Result<Identity, ApiError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(invalid("it is too long"));
        }
        // a header with "none" or an unknown algorithm does not parse
        let header =
            jsonwebtoken::decode_header(token).map_err(|_| invalid("it is not a signed JWT"))?;
        // read before the signature is known to be good, only to choose whose key must verify it
        let claimed = jsonwebtoken::dangerous::insecure_decode_claims::<Unverified>(token)
            .map_err(|_| invalid("it names no issuer"))?;
        let issuer = self
            .issuers
            .get(&claimed.iss)
            .ok_or_else(|| invalid("its issuer is not trusted"))?;
        if !issuer.algorithms.contains(&header.alg) {
            return Err(invalid("its algorithm is not allowed for its issuer"));
        }
        let jwk = issuer
            .keys
            .find(header.kid.as_deref())
            .await
            .map_err(|error| {
                // the attempts themselves are logged; tokens of nobody shall not fill the log
                tracing::debug!(issuer = %claimed.iss, "no signing key: {error}");
                ApiError::unavailable()
            })?;
        let jwk = jwk.ok_or_else(|| invalid("its signing key is unknown"))?;
        if jwk
            .common
            .key_algorithm
            .is_some_and(|a| a.to_string().parse::<Algorithm>().ok() != Some(header.alg))
        {
            return Err(invalid("its algorithm is not that of its key"));
        }
        let key =
            DecodingKey::from_jwk(&jwk).map_err(|_| invalid("its signing key is not usable"))?;
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY_SECONDS;
        validation.validate_nbf = true;
        validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
        validation.set_issuer(&[&claimed.iss]);
        validation.set_audience(&[&issuer.audience]);
        let verified = jsonwebtoken::decode::<Verified>(token, &key, &validation).map_err(
            |error| match error.kind() {
                ErrorKind::ExpiredSignature => ApiError::new(
                    Code::Unauthenticated,
                    ErrorReason::CredentialExpired,
                    "The token has expired. Get a new one.",
                ),
                ErrorKind::ImmatureSignature => invalid("it is not valid yet"),
                ErrorKind::InvalidAudience => invalid("it is meant for another audience"),
                ErrorKind::MissingRequiredClaim(claim) => {
                    invalid(&format!("it lacks the claim {claim}"))
                }
                _ => invalid("its signature or claims are wrong"),
            },
        )?;
        if verified.claims.sub.is_empty() {
            return Err(invalid("its subject is empty"));
        }
        if verified.claims.sub.contains(char::is_control) {
            return Err(invalid("its subject has control characters"));
        }
        Ok(Identity {
            issuer: claimed.iss,
            subject: verified.claims.sub,
            expires: (verified.claims.exp as i64).saturating_add_unsigned(LEEWAY_SECONDS),
        })
    }
}

fn problem(issuer: &IssuerSettings, problem: &str) -> IssuerError {
    IssuerError::Setting {
        issuer: issuer.issuer.clone(),
        problem: problem.to_owned(),
    }
}

fn open(settings: &IssuerSettings, meter: &Meter) -> Result<Issuer, IssuerError> {
    let keys_error = |source| IssuerError::Keys {
        issuer: settings.issuer.clone(),
        source,
    };
    let mut algorithms = Vec::new();
    for name in &settings.algorithms {
        let algorithm: Algorithm = name
            .parse()
            .map_err(|_| problem(settings, "has an unknown algorithm"))?;
        // with a shared secret everybody who checks tokens could also make them
        if matches!(
            algorithm,
            Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512
        ) {
            return Err(problem(settings, "allows a symmetric algorithm"));
        }
        algorithms.push(algorithm);
    }
    if algorithms.is_empty() {
        return Err(problem(settings, "allows no algorithm"));
    }
    if settings.issuer.is_empty() || settings.audience.is_empty() {
        return Err(problem(settings, "needs issuer and audience"));
    }
    let keys = match (&settings.jwks_file, &settings.jwks_url) {
        (Some(file), None) => KeySource::file(file).map_err(keys_error)?,
        (None, Some(url)) => {
            let loopback = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
            if url.scheme() != "https" && !loopback {
                return Err(problem(settings, "has a jwks_url without https"));
            }
            let fetches = Fetches::new(meter, &settings.issuer);
            KeySource::remote(url.clone(), &settings.jwks_refresh, fetches).map_err(keys_error)?
        }
        _ => return Err(problem(settings, "needs either jwks_file or jwks_url")),
    };
    Ok(Issuer {
        audience: settings.audience.clone(),
        algorithms,
        keys,
    })
}

fn invalid(why: &str) -> ApiError {
    ApiError::new(
        Code::Unauthenticated,
        ErrorReason::CredentialInvalid,
        format!("The token is not accepted: {why}."),
    )
}
