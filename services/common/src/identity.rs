//! Who calls: a peer by its certificate, a person by the gateway's internal token.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use tonic::{Code, Request};
use uuid::Uuid;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::error::{Error, Result};

/// Lifetime of an internal token in seconds.
pub const TOKEN_SECONDS: i64 = 60;
const TOKEN_ISSUER: &str = "gpuaas-gateway";

/// A peer, by the URI in its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// `spiffe://cell-<n>/service/<name>`.
    Service(String),
    /// `spiffe://cell-<n>/node/<node>/instance/<instance>`.
    Host {
        /// Node.
        node_id: Uuid,
        /// Host instance.
        instance_id: Uuid,
    },
}

/// URI of a service's certificate.
pub fn service_uri(cell: u16, service: &str) -> String {
    format!("spiffe://cell-{cell}/service/{service}")
}

/// URI of a host instance's certificate.
pub fn host_uri(cell: u16, node_id: &Uuid, instance_id: &Uuid) -> String {
    format!("spiffe://cell-{cell}/node/{node_id}/instance/{instance_id}")
}

/// DNS name of a service's certificate.
pub fn service_dns(service: &str) -> String {
    format!("{service}.gpuaas.internal")
}

/// DNS name of a host instance's certificate: a caller that checks it talks to this very instance.
pub fn host_dns(node_id: &Uuid, instance_id: &Uuid) -> String {
    format!("instance-{instance_id}.node-{node_id}.gpuaas.internal")
}

impl Peer {
    /// The peer of this cell that a certificate (DER) names; `None` when it names none.
    pub fn from_certificate(cell: u16, der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let names = certificate.subject_alternative_name().ok()??;
        names
            .value
            .general_names
            .iter()
            .find_map(|name| match name {
                GeneralName::URI(uri) => Self::from_uri(cell, uri),
                _ => None,
            })
    }

    /// The peer of this cell that a URI names.
    pub fn from_uri(cell: u16, uri: &str) -> Option<Self> {
        let path = uri.strip_prefix(&format!("spiffe://cell-{cell}/"))?;
        match path.split('/').collect::<Vec<_>>().as_slice() {
            ["service", name] if !name.is_empty() => Some(Self::Service((*name).to_owned())),
            ["node", node, "instance", instance] => Some(Self::Host {
                node_id: node.parse().ok()?,
                instance_id: instance.parse().ok()?,
            }),
            _ => None,
        }
    }

    /// The peer of a request that passed the server's access layer.
    ///
    /// # Errors
    /// `PEER_NOT_ALLOWED` when there is none.
    pub fn of<T>(request: &Request<T>) -> Result<Self> {
        request.extensions().get::<Self>().cloned().ok_or_else(|| {
            Error::new(
                Code::Unauthenticated,
                ErrorReason::PeerNotAllowed,
                "a certificate of this cell is needed",
            )
        })
    }
}

/// Role of a principal on the whole platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlatformRole {
    /// May do everything.
    Admin,
    /// Runs the platform; changes nobody's rights, prices or quotas.
    Operator,
    /// Reads everything, changes nothing.
    Auditor,
}

#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    sub: String,
    iat: i64,
    exp: i64,
    projects: Vec<Uuid>,
    /// A service of the release before reads this alone: it takes nobody else for an administrator.
    admin: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    platform_role: Option<PlatformRole>,
    /// The action that the projects are good for; any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    action: Option<String>,
}

/// What a token says of its bearer.
#[derive(Clone, Copy, Debug)]
pub struct Bearer<'a> {
    /// Stable name of the principal.
    pub principal: &'a str,
    /// Projects in which the principal may do `action`.
    pub projects: &'a [Uuid],
    /// Its role on the platform.
    pub platform_role: Option<PlatformRole>,
    /// The one action that the token is good for; any when absent.
    pub action: Option<&'a str>,
}

/// A person, as the gateway says.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Stable name of the principal, for example "user:alice" or "key:…".
    pub principal: String,
    /// Projects in which the principal may do what it calls for.
    pub projects: Vec<Uuid>,
    /// Its role on the whole platform.
    pub platform_role: Option<PlatformRole>,
    /// The one action that its token is good for; any when absent.
    pub action: Option<String>,
    /// Of the HTTP request.
    pub request_id: String,
    /// Given with every mutation.
    pub idempotency_key: Option<String>,
}

/// Proof that the caller belongs to this project. Store functions on tenants' rows take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectScope(Uuid);

impl ProjectScope {
    /// The project.
    pub fn id(self) -> Uuid {
        self.0
    }

    /// A scope for work that the system itself does for a project (workflows, event consumers).
    pub fn system(project: Uuid) -> Self {
        Self(project)
    }
}

impl Caller {
    /// The caller of a request that passed the server's access layer.
    ///
    /// # Errors
    /// `CREDENTIAL_MISSING` when there is none.
    pub fn of<T>(request: &Request<T>) -> Result<Self> {
        request.extensions().get::<Self>().cloned().ok_or_else(|| {
            Error::new(
                Code::Unauthenticated,
                ErrorReason::CredentialMissing,
                "an internal token is needed",
            )
        })
    }

    /// The project a request is about: the given one, or the caller's only one.
    ///
    /// # Errors
    /// `PROJECT_UNKNOWN` for a project that is not the caller's; a field error when none is given and the
    /// caller belongs to none or several.
    pub fn project(&self, given: &str) -> Result<ProjectScope> {
        if given.is_empty() {
            return match self.projects.as_slice() {
                [only] => Ok(ProjectScope(*only)),
                [] => Err(Error::invalid(
                    "project_id",
                    "you belong to no project; ask an administrator",
                )),
                _ => Err(Error::invalid(
                    "project_id",
                    "must be given: you belong to several projects",
                )),
            };
        }
        let id = crate::id::parse("project_id", given)?;
        if self.projects.contains(&id) {
            Ok(ProjectScope(id))
        } else {
            Err(Error::new(
                Code::NotFound,
                ErrorReason::ProjectUnknown,
                "no such project",
            )
            .field("project_id", "must be one of your projects"))
        }
    }

    /// Scopes of all the caller's projects.
    pub fn scopes(&self) -> Vec<ProjectScope> {
        self.projects.iter().copied().map(ProjectScope).collect()
    }

    /// The idempotency key of a mutation.
    ///
    /// # Errors
    /// `IDEMPOTENCY_KEY_MISSING`.
    pub fn idempotency_key(&self) -> Result<&str> {
        self.idempotency_key
            .as_deref()
            .filter(|key| !key.is_empty())
            .ok_or_else(|| {
                Error::new(
                    Code::InvalidArgument,
                    ErrorReason::IdempotencyKeyMissing,
                    "every mutation needs the header X-Idempotency-Key; repeat it when you retry",
                )
                .field("X-Idempotency-Key", "must be given")
            })
    }
}

/// Makes internal tokens. Only the gateway has one.
pub struct TokenMinter {
    key: EncodingKey,
}

impl TokenMinter {
    /// From an Ed25519 private key in PKCS#8 PEM.
    ///
    /// # Errors
    /// A malformed key.
    pub fn from_pem(pem: &str) -> Result<Self, jsonwebtoken::errors::Error> {
        Ok(Self {
            key: EncodingKey::from_ed_pem(pem.as_bytes())?,
        })
    }

    /// A token for one service and any action, of an administrator or of a member of projects, valid from `now` (seconds
    /// since 1970) for [`TOKEN_SECONDS`].
    ///
    /// # Errors
    /// Signing failed.
    pub fn mint(
        &self,
        service: &str,
        principal: &str,
        projects: &[Uuid],
        admin: bool,
        now: i64,
    ) -> Result<String, jsonwebtoken::errors::Error> {
        let bearer = Bearer {
            principal,
            projects,
            platform_role: admin.then_some(PlatformRole::Admin),
            action: None,
        };
        self.mint_for(service, &bearer, now)
    }

    /// A token for one service, valid as that of [`mint`](Self::mint).
    ///
    /// # Errors
    /// Signing failed.
    pub fn mint_for(
        &self,
        service: &str,
        bearer: &Bearer<'_>,
        now: i64,
    ) -> Result<String, jsonwebtoken::errors::Error> {
        let claims = Claims {
            iss: TOKEN_ISSUER.to_owned(),
            aud: service.to_owned(),
            sub: bearer.principal.to_owned(),
            iat: now,
            exp: now + TOKEN_SECONDS,
            projects: bearer.projects.to_vec(),
            admin: bearer.platform_role == Some(PlatformRole::Admin),
            platform_role: bearer.platform_role,
            action: bearer.action.map(str::to_owned),
        };
        jsonwebtoken::encode(&Header::new(Algorithm::EdDSA), &claims, &self.key)
    }
}

/// Verifies internal tokens for one service.
#[derive(Clone)]
pub struct TokenVerifier {
    key: DecodingKey,
    validation: Validation,
}

impl TokenVerifier {
    /// From an Ed25519 public key in PEM; accepts only tokens for `service`.
    ///
    /// # Errors
    /// A malformed key.
    pub fn from_pem(pem: &str, service: &str) -> Result<Self, jsonwebtoken::errors::Error> {
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_audience(&[service]);
        validation.set_issuer(&[TOKEN_ISSUER]);
        validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
        validation.leeway = 5;
        Ok(Self {
            key: DecodingKey::from_ed_pem(pem.as_bytes())?,
            validation,
        })
    }

    /// The caller of a token; request id and idempotency key come from elsewhere.
    ///
    /// # Errors
    /// `CREDENTIAL_EXPIRED` or `CREDENTIAL_INVALID`.
    pub fn verify(&self, token: &str) -> Result<Caller> {
        let data = jsonwebtoken::decode::<Claims>(token, &self.key, &self.validation).map_err(
            |error| {
                let reason = match error.kind() {
                    jsonwebtoken::errors::ErrorKind::ExpiredSignature => {
                        ErrorReason::CredentialExpired
                    }
                    _ => ErrorReason::CredentialInvalid,
                };
                Error::new(
                    Code::Unauthenticated,
                    reason,
                    "the internal token is not valid",
                )
                .source(error)
            },
        )?;
        Ok(Caller {
            principal: data.claims.sub,
            projects: data.claims.projects,
            // a gateway of the release before knows administrators only
            platform_role: data
                .claims
                .platform_role
                .or(data.claims.admin.then_some(PlatformRole::Admin)),
            action: data.claims.action,
            request_id: String::new(),
            idempotency_key: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> (TokenMinter, String) {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("key");
        (
            TokenMinter::from_pem(&pair.serialize_pem()).expect("private"),
            pair.public_key_pem(),
        )
    }

    fn now() -> i64 {
        jiff::Timestamp::now().as_second()
    }

    #[test]
    fn token_is_for_one_service_and_a_minute() {
        let (minter, public) = keys();
        let verifier = TokenVerifier::from_pem(&public, "billing").expect("public");
        let project = Uuid::now_v7();
        let good = minter
            .mint("billing", "user:a", &[project], false, now())
            .expect("mint");
        assert_eq!(verifier.verify(&good).expect("valid").projects, [project]);
        let other = minter
            .mint("scheduler", "user:a", &[], true, now())
            .expect("mint");
        assert_eq!(
            verifier.verify(&other).expect_err("audience").reason(),
            ErrorReason::CredentialInvalid
        );
        let old = minter
            .mint("billing", "user:a", &[], false, now() - 120)
            .expect("mint");
        assert_eq!(
            verifier.verify(&old).expect_err("expired").reason(),
            ErrorReason::CredentialExpired
        );
        let (foreign, _) = keys();
        let forged = foreign
            .mint("billing", "user:a", &[], true, now())
            .expect("mint");
        assert_eq!(
            verifier.verify(&forged).expect_err("forged").reason(),
            ErrorReason::CredentialInvalid
        );
    }

    #[test]
    fn peers_of_another_cell_are_nobody() {
        assert_eq!(
            Peer::from_uri(1, "spiffe://cell-1/service/billing"),
            Some(Peer::Service("billing".to_owned()))
        );
        assert_eq!(Peer::from_uri(1, "spiffe://cell-2/service/billing"), None);
        assert_eq!(Peer::from_uri(1, "spiffe://cell-1/service/"), None);
        let (node_id, instance_id) = (Uuid::now_v7(), Uuid::now_v7());
        assert_eq!(
            Peer::from_uri(1, &host_uri(1, &node_id, &instance_id)),
            Some(Peer::Host {
                node_id,
                instance_id
            })
        );
    }

    #[test]
    fn project_is_the_only_one_or_named() {
        let (a, b) = (Uuid::now_v7(), Uuid::now_v7());
        let mut caller = Caller {
            principal: "user:a".into(),
            projects: vec![a],
            platform_role: None,
            action: None,
            request_id: String::new(),
            idempotency_key: None,
        };
        assert_eq!(caller.project("").expect("only one").id(), a);
        assert_eq!(
            caller
                .project(&b.to_string())
                .expect_err("foreign")
                .reason(),
            ErrorReason::ProjectUnknown
        );
        caller.projects.push(b);
        assert_eq!(
            caller.project("").expect_err("several").fields()[0].0,
            "project_id"
        );
        assert!(caller.idempotency_key().is_err());
    }
}
