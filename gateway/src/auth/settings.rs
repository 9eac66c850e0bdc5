//! What is configured of one trusted issuer.
use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use url::Url;

use super::keys::RefreshSettings;

/// The claim by which an issuer names somebody for good. Claims that somebody else may get one day are not offered.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum SubjectClaim {
    /// `sub`, as OpenID Connect has it.
    #[default]
    Sub,
    /// `oid`, the object id of Entra ID, whose `sub` is another one for each client.
    Oid,
}

/// One trusted issuer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerSettings {
    /// The `iss` claim, exactly.
    pub issuer: String,
    /// The `aud` claim that names this API. Never a client id: id tokens would pass for access tokens.
    pub audience: String,
    /// Accepted signature algorithms, for example `["RS256"]`. Symmetric ones are refused.
    pub algorithms: Vec<String>,
    /// The claim that says who somebody is: `sub`, or `oid` for Entra ID, which is what its SCIM can send, too.
    #[serde(default)]
    pub subject_claim: SubjectClaim,
    /// Key set in a file.
    pub jwks_file: Option<PathBuf>,
    /// Address of the key set; https, or http on loopback.
    pub jwks_url: Option<Url>,
    /// When the key set of `jwks_url` is fetched again.
    #[serde(default)]
    pub jwks_refresh: RefreshSettings,
    /// How sign-in pages name the issuer, for example `Example Inc.`; its address when absent.
    #[serde(default)]
    pub display_name: String,
    /// The console's client id at the issuer: a public client, code with PKCE, redirect URI `ORIGIN/sign-in/callback`.
    /// Without one the console does not offer the issuer.
    #[serde(default)]
    pub console_client_id: Option<String>,
    /// The command line's client id at the issuer: a public client, device authorization. Without one `gpuaas login`
    /// does not offer the issuer.
    #[serde(default)]
    pub cli_client_id: Option<String>,
    /// Scopes that a sign-in asks for; `offline_access` is what most issuers give refresh tokens for.
    #[serde(default = "default_scopes")]
    pub scopes: Vec<String>,
    /// Parameters that a sign-in adds to its requests, for example `{ resource = "https://api.example.com" }` where an
    /// issuer needs it to give access tokens for this API.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// Origins of the issuer's endpoints where they are not the issuer's own, for example
    /// `["https://oauth2.example.com"]`. The console's content policy lets it call these.
    #[serde(default)]
    pub endpoint_origins: Vec<String>,
    /// Administrators need a token whose `acr` claim is one of these, or whose `amr` has one of `admin_amr`. With both
    /// lists empty no second factor is asked for.
    #[serde(default)]
    pub admin_acr: Vec<String>,
    /// See `admin_acr`; for example `["mfa", "hwk"]`.
    #[serde(default)]
    pub admin_amr: Vec<String>,
    /// Nobody accepts an invitation whose token has no email address that the issuer says it has verified. Without this, a token
    /// that names no verified address accepts any invitation whose link its owner has.
    #[serde(default)]
    pub require_verified_email: bool,
    /// Days for which a back-channel logout is remembered, at least the longest lifetime of the issuer's tokens.
    #[serde(default = "default_logout_days")]
    pub logout_days: u16,
}

/// What most issuers need to know of a sign-in, and to give a refresh token.
pub fn default_scopes() -> Vec<String> {
    ["openid", "offline_access"].map(str::to_owned).to_vec()
}

fn default_logout_days() -> u16 {
    30
}

impl Default for IssuerSettings {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            audience: String::new(),
            algorithms: Vec::new(),
            subject_claim: SubjectClaim::default(),
            jwks_file: None,
            jwks_url: None,
            jwks_refresh: RefreshSettings::default(),
            display_name: String::new(),
            console_client_id: None,
            cli_client_id: None,
            scopes: default_scopes(),
            parameters: BTreeMap::new(),
            endpoint_origins: Vec::new(),
            admin_acr: Vec::new(),
            admin_amr: Vec::new(),
            require_verified_email: false,
            logout_days: default_logout_days(),
        }
    }
}

impl IssuerSettings {
    /// The client ids that are configured.
    pub fn clients(&self) -> impl Iterator<Item = &String> {
        self.console_client_id.iter().chain(&self.cli_client_id)
    }
}
