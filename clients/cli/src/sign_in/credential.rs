//! What a command shows to the API: nothing, a token that was given, or that of a context, renewed in time.
use jiff::Timestamp;
use tokio::sync::Mutex;

use super::contexts::{Context, ContextFile, Tokens};
use super::oauth;
use crate::failure::Failure;

/// A token with less life than this is renewed, in seconds.
const RENEW_BEFORE: i64 = 60;

/// What is shown to the API.
#[derive(Debug)]
pub enum Credential {
    /// Nothing.
    None,
    /// A token that a file or the environment gave.
    Given(String),
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

impl Credential {
    /// The token for the next request.
    ///
    /// # Errors
    /// The sign-in has ended, or cannot be renewed now.
    pub async fn token(&self, http: &reqwest::Client) -> Result<Option<String>, Failure> {
        match self {
            Self::None => Ok(None),
            Self::Given(token) => Ok(Some(token.clone())),
            Self::Context(signed_in) => signed_in.token(http).await.map(Some),
        }
    }
}
