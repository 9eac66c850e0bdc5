//! Checks a bearer token: issuer known, algorithm pinned per issuer, key by id, audience, times.
use std::collections::HashMap;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use opentelemetry::metrics::Meter;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tonic::Code;
use uuid::Uuid;

use super::dev_issuer::DevIssuer;
use super::keys::{Fetches, KeySource, KeysError};
pub use super::settings::{IssuerSettings, SubjectClaim};
use crate::error::ApiError;

/// Clocks may differ by this much, in seconds.
pub const LEEWAY_SECONDS: u64 = 10;
/// When a credential stops to count that does not expire.
pub const NEVER: i64 = i64::MAX;
/// No issuer writes longer tokens; longer ones are not parsed.
const MAX_TOKEN_BYTES: usize = 8192;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The issuer, as principals are registered with it.
    pub issuer: String,
    /// The issuer's name for the principal.
    pub subject: String,
    /// When the token stops to count, in seconds since 1970, with what clocks may differ by.
    pub expires: i64,
    /// Address of the subject, when the issuer says that it has verified it.
    pub email: Option<String>,
    /// When the token was issued, in seconds since 1970; 0 when it does not say.
    pub issued: i64,
    /// The issuer's name for the sign-in that the token comes from.
    pub sid: Option<String>,
    /// Whether the sign-in proves what the issuer's settings ask of administrators, operators and auditors.
    pub second_factor: bool,
    /// The API key that it came with, or that its short token is for.
    pub key: Option<Uuid>,
    /// It came with a short token in place of the key.
    pub is_short: bool,
    /// Fingerprint of the SSH key that it came with.
    pub ssh_key: Option<String>,
}

/// What is trusted of one issuer.
#[derive(Clone, Debug)]
pub(super) struct Issuer {
    /// What principals are registered with.
    pub(super) name: String,
    audience: String,
    /// The claim that says who somebody is.
    pub(super) subject_claim: SubjectClaim,
    algorithms: Vec<Algorithm>,
    keys: KeySource,
    /// Who a logout token may be for.
    pub(super) clients: Vec<String>,
    admin_acr: Vec<String>,
    admin_amr: Vec<String>,
    requires_verified_email: bool,
    /// Days for which a logout is remembered.
    pub(super) logout_days: u16,
}

impl Issuer {
    fn proves_second_factor(&self, claims: &Verified) -> bool {
        let Self {
            admin_acr,
            admin_amr,
            ..
        } = self;
        let is_one_of = |text: &Value, list: &[String]| list.iter().any(|known| text == known);
        let mut methods = claims.amr.as_array().into_iter().flatten();
        (admin_acr.is_empty() && admin_amr.is_empty())
            || is_one_of(&claims.acr, admin_acr)
            || methods.any(|method| is_one_of(method, admin_amr))
    }
}

/// A token whose key and algorithm are those of a trusted issuer; its signature is not checked yet.
pub(super) struct Candidate<'a> {
    pub(super) issuer: &'a Issuer,
    pub(super) key: DecodingKey,
    /// Checks signature, issuer and times; the audience is left to add.
    pub(super) validation: Validation,
    /// The header's `typ`.
    pub(super) kind: Option<String>,
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
    oid: Option<String>,
    exp: f64,
    #[serde(default)]
    iat: f64,
    #[serde(default)]
    email: Value,
    #[serde(default)]
    email_verified: Value,
    sid: Option<String>,
    // an issuer may write these in any form; what is not understood proves nothing
    #[serde(default)]
    acr: Value,
    #[serde(default)]
    amr: Value,
    /// Some issuers say here which kind of token it is.
    typ: Option<String>,
    // what only id tokens and logout tokens have
    at_hash: Option<IgnoredAny>,
    c_hash: Option<IgnoredAny>,
    events: Option<IgnoredAny>,
}

impl Verified {
    /// The address, when it is verified. Some issuers write the claim as text.
    fn verified_email(&self) -> Option<String> {
        let verified = match &self.email_verified {
            Value::Bool(verified) => *verified,
            Value::String(text) => text == "true",
            _ => false,
        };
        let email = self.email.as_str().filter(|_| verified)?;
        Some(email.to_owned())
    }

    /// Whether this was made for another use than to call an API with.
    fn is_of_another_kind(&self) -> bool {
        let kind = self.typ.as_deref();
        self.at_hash.is_some()
            || self.c_hash.is_some()
            || self.events.is_some()
            || matches!(kind, Some("ID" | "Refresh" | "Offline" | "Logout"))
    }
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
                name: dev.issuer().to_owned(),
                audience: dev.audience().to_owned(),
                subject_claim: SubjectClaim::Sub,
                algorithms: vec![Algorithm::EdDSA],
                keys: KeySource::fixed(dev.key_set()),
                clients: Vec::new(),
                admin_acr: Vec::new(),
                admin_amr: Vec::new(),
                requires_verified_email: false,
                logout_days: 30,
            };
            // its tokens name its address once it has one; those from before stay good
            for name in dev.names() {
                if issuers.insert(name.to_owned(), embedded.clone()).is_some() {
                    return Err(IssuerError::Setting {
                        issuer: name.to_owned(),
                        problem: "is also the embedded issuer".to_owned(),
                    });
                }
            }
        }
        Ok(Self { issuers })
    }

    /// Whether tokens of an issuer are accepted.
    pub fn trusts(&self, issuer: &str) -> bool {
        self.issuers.values().any(|known| known.name == issuer)
    }

    /// Whether people of an issuer accept invitations by a verified email address alone.
    pub fn requires_verified_email(&self, issuer: &str) -> bool {
        let mut all = self.issuers.values();
        all.any(|known| known.name == issuer && known.requires_verified_email)
    }

    /// Checks a token.
    ///
    /// # Errors
    /// `CREDENTIAL_EXPIRED` or `CREDENTIAL_INVALID`; `DEPENDENCY_UNAVAILABLE` when the key may be one that the issuer
    /// has but the gateway has not fetched.
    pub async fn verify(&self, token: &str) -> Result<Identity, ApiError> {
        let Candidate {
            issuer,
            key,
            mut validation,
            ..
        } = self.candidate(token).await?;
        validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
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
        let mut claims = verified.claims;
        if issuer.subject_claim == SubjectClaim::Oid {
            let oid = claims.oid.take();
            claims.sub = oid.ok_or_else(|| invalid("it lacks the claim oid"))?;
        }
        if claims.sub.is_empty() {
            return Err(invalid("its subject is empty"));
        }
        if claims.sub.contains(char::is_control) {
            return Err(invalid("its subject has control characters"));
        }
        if claims.is_of_another_kind() {
            return Err(invalid("it is not an access token"));
        }
        Ok(Identity {
            email: claims.verified_email(),
            issuer: issuer.name.clone(),
            expires: (claims.exp as i64).saturating_add_unsigned(LEEWAY_SECONDS),
            issued: claims.iat as i64,
            second_factor: issuer.proves_second_factor(&claims),
            subject: claims.sub,
            sid: claims.sid,
            key: None,
            is_short: false,
            ssh_key: None,
        })
    }

    /// Finds the issuer that a token names, and the key that must have signed it.
    pub(super) async fn candidate(&self, token: &str) -> Result<Candidate<'_>, ApiError> {
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
        validation.set_issuer(&[&claimed.iss]);
        Ok(Candidate {
            issuer,
            key,
            validation,
            kind: header.typ,
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
    if settings.clients().any(|id| *id == settings.audience) {
        return Err(problem(
            settings,
            "has an audience that is a client id, so id tokens would be access tokens",
        ));
    }
    let keys = match (&settings.jwks_file, &settings.jwks_url) {
        (Some(file), None) => KeySource::file(file).map_err(keys_error)?,
        (None, Some(url)) => {
            let loopback = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
            if url.scheme() != "https" && !loopback {
                return Err(problem(settings, "has a jwks_url without https"));
            }
            let refresh = &settings.jwks_refresh;
            let least = refresh.max_age_seconds + refresh.timeout_seconds;
            if refresh.expire_seconds > 0.0 && refresh.expire_seconds <= least {
                return Err(problem(
                    settings,
                    "needs an expire_seconds above its max_age_seconds and timeout_seconds together",
                ));
            }
            let fetches = Fetches::new(meter, &settings.issuer);
            KeySource::remote(url.clone(), refresh, fetches).map_err(keys_error)?
        }
        _ => return Err(problem(settings, "needs either jwks_file or jwks_url")),
    };
    Ok(Issuer {
        name: settings.issuer.clone(),
        audience: settings.audience.clone(),
        subject_claim: settings.subject_claim,
        algorithms,
        keys,
        clients: settings.clients().cloned().collect(),
        admin_acr: settings.admin_acr.clone(),
        admin_amr: settings.admin_amr.clone(),
        requires_verified_email: settings.require_verified_email,
        logout_days: settings.logout_days,
    })
}

pub(super) fn invalid(why: &str) -> ApiError {
    ApiError::new(
        Code::Unauthenticated,
        ErrorReason::CredentialInvalid,
        format!("The token is not accepted: {why}."),
    )
}
