//! Where to sign in: the issuers that the console and the command line can use, and what the console's content policy
//! lets it call for that.
use std::collections::BTreeMap;

use http::HeaderValue;
use serde::Serialize;
use url::Url;

use super::dev_issuer::DevIssuer;
use super::provider::clients;
use super::settings::{IssuerSettings, default_scopes};

/// Where it is served, to anybody.
pub const PATH: &str = "/.well-known/gpuaas-configuration";

#[derive(Debug, Serialize)]
struct Configuration<'a> {
    issuers: Vec<Issuer<'a>>,
}

#[derive(Debug, Serialize)]
struct Issuer<'a> {
    issuer: &'a str,
    display_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    console_client_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cli_client_id: Option<&'a str>,
    scopes: Vec<String>,
    parameters: BTreeMap<String, String>,
    /// What `acr` administrators need, so that the console can ask for it (`acr_values`).
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    admin_acr_values: &'a [String],
    /// The embedded issuer of a development stack.
    development: bool,
}

/// The document, as JSON.
///
/// # Errors
/// None that these types can cause.
pub fn document(
    settings: &[IssuerSettings],
    dev: Option<&DevIssuer>,
) -> Result<String, serde_json::Error> {
    let configured = settings.iter().map(|issuer| Issuer {
        issuer: &issuer.issuer,
        display_name: match issuer.display_name.as_str() {
            "" => &issuer.issuer,
            name => name,
        },
        console_client_id: issuer.console_client_id.as_deref(),
        cli_client_id: issuer.cli_client_id.as_deref(),
        scopes: issuer.scopes.clone(),
        parameters: issuer.parameters.clone(),
        admin_acr_values: &issuer.admin_acr,
        development: false,
    });
    let embedded = dev.map(|dev| Issuer {
        issuer: dev.address(),
        display_name: "Development sign-in",
        console_client_id: Some(clients::CONSOLE),
        cli_client_id: Some(clients::CLI),
        scopes: default_scopes(),
        parameters: BTreeMap::new(),
        admin_acr_values: &[],
        development: true,
    });
    let usable =
        |issuer: &Issuer<'_>| issuer.console_client_id.is_some() || issuer.cli_client_id.is_some();
    serde_json::to_string(&Configuration {
        issuers: configured.chain(embedded).filter(usable).collect(),
    })
}

/// The content policy of the console. Scripts come from its own address only and never from the page itself; `style`
/// elements are what the terminal and the dialogs write at run time; connections go to its own address and to the issuers.
///
/// # Errors
/// An origin that cannot be a header.
pub fn console_policy(
    settings: &[IssuerSettings],
) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    let used = settings
        .iter()
        .filter(|issuer| issuer.console_client_id.is_some());
    let mut origins: Vec<String> = used
        .flat_map(|issuer| {
            let own = Url::parse(&issuer.issuer)
                .ok()
                .map(|url| url.origin().ascii_serialization());
            own.into_iter().chain(issuer.endpoint_origins.clone())
        })
        .collect();
    origins.sort();
    origins.dedup();
    let origins: String = origins.iter().map(|origin| format!(" {origin}")).collect();
    HeaderValue::from_str(&format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
         img-src 'self' data:; font-src 'self'; connect-src 'self'{origins}; manifest-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer() -> IssuerSettings {
        IssuerSettings {
            issuer: "https://login.example.com/realms/a".to_owned(),
            console_client_id: Some("console".to_owned()),
            endpoint_origins: vec!["https://oauth2.example.com".to_owned()],
            ..IssuerSettings::default()
        }
    }

    #[test]
    fn only_issuers_with_a_client_are_offered() {
        let without = IssuerSettings {
            issuer: "https://machines.example.com".to_owned(),
            ..IssuerSettings::default()
        };
        let text = document(&[issuer(), without], None).expect("JSON");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            value,
            serde_json::json!({ "issuers": [{
                "issuer": "https://login.example.com/realms/a",
                "display_name": "https://login.example.com/realms/a",
                "console_client_id": "console",
                "scopes": ["openid", "offline_access"],
                "parameters": {},
                "development": false,
            }] })
        );
    }

    #[test]
    fn what_is_asked_of_administrators_is_told() {
        let strict = IssuerSettings {
            admin_acr: vec!["urn:gold".to_owned(), "urn:silver".to_owned()],
            ..issuer()
        };
        let text = document(&[strict], None).expect("JSON");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            value["issuers"][0]["admin_acr_values"],
            serde_json::json!(["urn:gold", "urn:silver"])
        );
    }

    #[test]
    fn the_console_may_call_its_issuers_and_nobody_else() {
        let policy = console_policy(&[issuer()]).expect("a header");
        let policy = policy.to_str().expect("text");
        let expected = "connect-src 'self' https://login.example.com https://oauth2.example.com;";
        assert!(policy.contains(expected), "{policy}");
        let policy = console_policy(&[]).expect("a header");
        assert!(
            policy
                .to_str()
                .expect("text")
                .contains("connect-src 'self';")
        );
    }
}
