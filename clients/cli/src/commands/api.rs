//! `api`: any method of the HTTP API with the user's token.
use std::fs;
use std::io::Read as _;

use reqwest::Method;
use serde_json::Value;

use crate::failure::Failure;
use crate::output::print_json;
use crate::session::Session;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// HTTP method.
    #[arg(value_parser = ["GET", "POST", "PUT", "PATCH", "DELETE"], ignore_case = true)]
    method: String,
    /// Path with its query, for example "/api/v1/allocations?page_size=10".
    path: String,
    /// Body: JSON, @FILE, or @- for standard input.
    #[arg(long, short, value_name = "JSON")]
    data: Option<String>,
}

impl Flags {
    /// Whether an administrator's token is needed.
    pub fn is_admin(&self) -> bool {
        parts(&self.path)
            .first()
            .is_some_and(|part| *part == "admin")
    }
}

/// The parts of a path below `/api/v1`, which may be left out.
fn parts(path: &str) -> Vec<&str> {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let path = path.trim_start_matches('/');
    let below = path.strip_prefix("api/v1/").unwrap_or(path);
    below.split('/').filter(|part| !part.is_empty()).collect()
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let parts = parts(&flags.path);
    // what the client escapes once must not be escaped already
    if parts
        .iter()
        .any(|part| matches!(*part, "." | "..") || part.contains('%'))
    {
        return Err(Failure::Usage(
            "the path must be plain text, without escapes, '.' and '..'".to_owned(),
        ));
    }
    let query = flags.path.split_once('?').map_or("", |(_, query)| query);
    let query: Vec<(String, String)> = url::form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let query: Vec<(&str, String)> = query.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
    let method = Method::from_bytes(flags.method.to_ascii_uppercase().as_bytes())
        .map_err(|_| Failure::Usage("no such method".to_owned()))?;
    let body = flags.data.as_deref().map(body).transpose()?;
    if method == Method::GET && body.is_some() {
        return Err(Failure::Usage(
            "a GET has no body; remove --data".to_owned(),
        ));
    }
    let answer = session
        .api
        .request(method, &parts, &query, body.as_ref(), &session.key)
        .await
        .map_err(|failure| match failure {
            Failure::Api(mut error) => {
                error.is_raw = true;
                Failure::Api(error)
            }
            other => other,
        })?;
    print_json(&answer);
    Ok(())
}

fn body(given: &str) -> Result<Value, Failure> {
    let unreadable =
        |error: std::io::Error| Failure::Usage(format!("cannot read --data {given}: {error}"));
    let text = match given.strip_prefix('@') {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(unreadable)?;
            text
        }
        Some(file) => fs::read_to_string(file).map_err(unreadable)?,
        None => given.to_owned(),
    };
    serde_json::from_str(&text)
        .map_err(|error| Failure::Usage(format!("--data is not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_leave_out_where_the_api_lies() {
        for path in ["/api/v1/admin/nodes?x=1", "admin/nodes", "/admin/nodes/"] {
            assert_eq!(parts(path), ["admin", "nodes"], "{path}");
        }
        assert_eq!(
            parts("/api/v1/allocations/1:stop"),
            ["allocations", "1:stop"]
        );
    }
}
