//! What a command shows to the API: nothing, a token that was given, or that of a context, renewed in time.
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Mutex;

use super::contexts::{Context, ContextFile, Tokens};
use super::oauth;
use crate::failure::Failure;
use crate::profile::read_token;

/// A token with less life than this is renewed, in seconds.
const RENEW_BEFORE: i64 = 60;
/// How long whoever renews a token file is given to complete it.
const RENEWAL: Duration = Duration::from_millis(200);

/// What is shown to the API.
#[derive(Debug)]
pub enum Credential {
    /// Nothing.
    None,
    /// A token that the environment gave, or a file that is read only once.
    Given(String),
    /// The token that is in a file when it is shown: somebody may renew it while a command lasts.
    File(PathBuf),
    /// That of a context.
    Context(Box<SignedIn>),
}

/// The sign-in of a context.
#[derive(Debug)]
pub struct SignedIn {
    file: ContextFile,
    name: String,
    /// As this command last knew it.
    context: Mutex<Context>,
}

impl SignedIn {
    /// Of a context of this name.
    pub fn new(file: ContextFile, name: &str, context: Context) -> Self {
        Self {
            file,
            name: name.to_owned(),
            context: Mutex::new(context),
        }
    }

    async fn token(&self, http: &reqwest::Client) -> Result<String, Failure> {
        let mut context = self.context.lock().await;
        let ended = || Failure::SignIn(format!("you are signed out of the context {}", self.name));
        let tokens = context.tokens.as_ref().ok_or_else(ended)?;
        if is_fresh(tokens) || tokens.refresh_token.is_none() {
            // one that cannot be renewed is for the API to judge
            return Ok(tokens.access_token.clone());
        }
        let locked = self.file.lock()?;
        let mut contexts = locked.read()?;
        let entry = contexts.contexts.get_mut(&self.name).ok_or_else(ended)?;
        let tokens = entry.tokens.as_ref().ok_or_else(ended)?;
        if !is_fresh(tokens) {
            let refresh_token = tokens.refresh_token.clone().unwrap_or_default();
            match oauth::refresh(http, entry, &refresh_token).await {
                Ok(renewed) => {
                    entry.tokens = Some(renewed);
                    *context = entry.clone();
                    locked.write(&contexts)?;
                }
                Err(failure @ Failure::SignInEnded(_)) => {
                    entry.tokens = None;
                    locked.write(&contexts)?;
                    return Err(failure);
                }
                // the token that is there is as good as before
                Err(Failure::ProviderUnavailable { .. }) if is_valid(tokens) => {
                    *context = entry.clone();
                }
                Err(failure) => return Err(failure),
            }
        } else {
            // another command has renewed it meanwhile
            *context = entry.clone();
        }
        let tokens = context.tokens.as_ref().ok_or_else(ended)?;
        Ok(tokens.access_token.clone())
    }
}

fn is_fresh(tokens: &Tokens) -> bool {
    tokens.expires - Timestamp::now().as_second() > RENEW_BEFORE
}

fn is_valid(tokens: &Tokens) -> bool {
    tokens.expires > Timestamp::now().as_second()
}

impl Credential {
    /// The token for the next request.
    ///
    /// # Errors
    /// The sign-in has ended, or cannot be renewed now.
    pub async fn token(&self, http: &reqwest::Client) -> Result<Option<String>, Failure> {
        match self {
            Self::None => Ok(None),
            Self::Given(token) => Ok(Some(token.clone())),
            Self::File(file) => {
                if let Ok(token) = read_token(file) {
                    return Ok(Some(token));
                }
                // one that is written anew is empty or missing for a moment
                tokio::time::sleep(RENEWAL).await;
                read_token(file).map(Some)
            }
            Self::Context(signed_in) => signed_in.token(http).await.map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http;

    #[test]
    fn a_token_file_that_is_renewed_is_read_again() {
        let folder = tempfile::tempdir().expect("temp dir");
        let file = folder.path().join("token");
        let credential = Credential::File(file.clone());
        let http = http::client().expect("a client");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let shown = || runtime.block_on(credential.token(&http));
        for token in ["first", "second"] {
            std::fs::write(&file, format!("{token}\n")).expect("write");
            assert_eq!(shown().expect("a token").as_deref(), Some(token));
        }
        std::fs::write(&file, "").expect("write");
        assert_eq!(shown().expect_err("none").exit_code(), 2);
    }
}
