//! Where the API is and which token is used: flags, environment, then the profile file.
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use url::Url;

use crate::failure::Failure;
use crate::global::Global;
use crate::sign_in::contexts::{Context, ContextFile, Contexts, config_folder};
use crate::sign_in::credential::{Credential, SignedIn};

/// The file that a development stack or an administrator hands out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// Base address of the API.
    pub api: Option<String>,
    /// File with the user's token.
    pub token_file: Option<PathBuf>,
    /// File with an administrator's token, used by `admin`.
    pub admin_token_file: Option<PathBuf>,
    /// Private key for `gpuaas ssh` where the key of the launch is not known on this machine.
    pub identity_file: Option<PathBuf>,
}

/// What a command needs.
#[derive(Debug)]
pub struct Target {
    /// Base address.
    pub api: Url,
    /// What is shown to it.
    pub credential: Credential,
    /// The id of the project that commands are about which name none.
    pub project: Option<String>,
    /// Private key for logins whose own is unknown.
    pub identity: Option<PathBuf>,
}

/// Finds API and credential. A token that the environment or a flag gives wins; then a context that is named, a profile
/// that is named, the context in use, the profile in the user's folder. A context's token goes to its own API alone.
///
/// # Errors
/// No API is named anywhere, or a named file or context cannot be used.
pub fn target(global: &Global, admin: bool) -> Result<Target, Failure> {
    let profile = profile(global)?;
    let from_profile = if admin {
        profile
            .admin_token_file
            .clone()
            .or(profile.token_file.clone())
    } else {
        profile.token_file.clone()
    };
    let given = given_token(global)?;
    let file = ContextFile::of_user();
    let known = match &file {
        Ok(file) => file.read(),
        // without a home folder there is no sign-in
        Err(_) => Ok(Contexts::default()),
    };
    // a file of sign-ins that cannot be used is no reason to refuse a token that was given
    let is_needed = given.is_none() && global.profile_file.is_none();
    let known = match known {
        Err(failure) if is_needed || global.context.is_some() => return Err(failure),
        known => known.unwrap_or_default(),
    };
    let (api, context) = choose(global, &profile, &known)?;
    // of who signed in there, and of nobody else
    let signed_in = context.filter(|_| given.is_none());
    let project = signed_in.and_then(|(_, context)| context.project.clone());
    let credential = match (given, context, from_profile, file) {
        (Some(token), ..) => match &global.token_file {
            Some(file) => of_file(file.clone(), token),
            None => Credential::Given(token),
        },
        (None, Some((name, context)), _, Ok(file)) => {
            Credential::Context(Box::new(SignedIn::new(file, name, context.clone())))
        }
        (None, _, Some(file), _) => {
            let token = read_token(&file)?;
            of_file(file, token)
        }
        (None, ..) => Credential::None,
    };
    Ok(Target {
        api,
        credential,
        project: project.map(|project| project.id),
        identity: profile.identity_file.filter(|file| file.exists()),
    })
}

/// The API's address for a sign-in.
///
/// # Errors
/// None is named anywhere.
pub fn address(global: &Global, known: &Contexts) -> Result<Url, Failure> {
    // a context that does not exist yet is about to be created
    let named = global
        .context
        .as_ref()
        .and_then(|name| known.contexts.get(name));
    match (&global.api, named) {
        (None, Some(context)) => Ok(context.api.clone()),
        _ => {
            let anonymous = Global {
                context: None,
                ..global.clone()
            };
            Ok(choose(&anonymous, &profile(global)?, known)?.0)
        }
    }
}

/// A context by its name.
type Named<'a> = (&'a str, &'a Context);

/// The API, and the context whose token it gets unless another is given.
fn choose<'a>(
    global: &Global,
    profile: &Profile,
    known: &'a Contexts,
) -> Result<(Url, Option<Named<'a>>), Failure> {
    let named = match &global.context {
        Some(name) => {
            let context = known.find(name)?;
            Some((name_in(known, name), context))
        }
        None => None,
    };
    if let Some(api) = &global.api {
        let api = parse_address(api)?;
        let context = match named {
            Some((name, context)) if context.api != api => {
                return Err(Failure::Usage(format!(
                    "the context {name} is for {}, not for {api}",
                    context.api
                )));
            }
            Some(context) => Some(context),
            // a profile that is named brings its own token
            None if global.profile_file.is_some() && profile.token_file.is_some() => None,
            None => known.of_api(&api),
        };
        return Ok((api, context));
    }
    if let Some((name, context)) = named {
        return Ok((context.api.clone(), Some((name, context))));
    }
    if global.profile_file.is_some()
        && let Some(api) = &profile.api
    {
        let api = parse_address(api)?;
        let without_token = profile.token_file.is_none() && profile.admin_token_file.is_none();
        let context = known.of_api(&api).filter(|_| without_token);
        return Ok((api, context));
    }
    if let Some((name, context)) = known.in_use() {
        return Ok((context.api.clone(), Some((name, context))));
    }
    let api = profile.api.as_ref().ok_or_else(|| {
        Failure::Usage("no API address is set; sign in with gpuaas login --api URL, or use --api URL, GPUAAS_API, or a profile file with --profile-file FILE".to_owned())
    })?;
    Ok((parse_address(api)?, None))
}

/// A context's name, for as long as the contexts are there.
fn name_in<'a>(known: &'a Contexts, name: &str) -> &'a str {
    let found = known.contexts.get_key_value(name);
    found.map_or("", |(name, _)| name)
}

fn parse_address(api: &str) -> Result<Url, Failure> {
    let api = Url::parse(api)
        .ok()
        .filter(|u| matches!(u.scheme(), "http" | "https") && u.has_host());
    let api = api.ok_or_else(|| {
        Failure::Usage("the API address must start with http:// or https://".to_owned())
    })?;
    if api.scheme() == "http"
        && !matches!(api.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"))
    {
        return Err(Failure::Usage("the API address must start with https:// because a token is sent; http:// is for this machine only".to_owned()));
    }
    Ok(api)
}

/// A token that this command was given: of the environment, or of a file.
fn given_token(global: &Global) -> Result<Option<String>, Failure> {
    if let Some(file) = &global.token_file {
        return read_token(file).map(Some);
    }
    let token = std::env::var("GPUAAS_TOKEN").unwrap_or_default();
    let token = token.trim();
    if token.contains(char::is_whitespace) {
        return Err(Failure::Usage(
            "GPUAAS_TOKEN must have one token and nothing else".to_owned(),
        ));
    }
    Ok(Some(token.to_owned()).filter(|token| !token.is_empty()))
}

/// What is set and keeps commands from using a sign-in, if anything is.
pub fn wins_over_contexts(global: &Global) -> Option<&'static str> {
    let has_token = |profile: Profile| profile.token_file.is_some();
    if given_token(global).is_ok_and(|token| token.is_some()) {
        Some("A token (GPUAAS_TOKEN or GPUAAS_TOKEN_FILE)")
    } else if global.profile_file.is_some() && profile(global).is_ok_and(has_token) {
        Some("A profile with a token (GPUAAS_PROFILE_FILE)")
    } else {
        None
    }
}

/// Whether whoever runs a command is an administrator: it is a command of theirs, the profile has their token, or they
/// were one when they signed in.
pub fn is_admin(global: &Global, command: bool) -> bool {
    let signed_in = || {
        let known = ContextFile::of_user().ok()?.read().ok()?;
        let (_, context) = choose(global, &profile(global).ok()?, &known).ok()?;
        context.map(|(_, context)| context.is_admin)
    };
    command
        || profile(global).is_ok_and(|profile| profile.admin_token_file.is_some())
        || (given_token(global).is_ok_and(|token| token.is_none()) && signed_in() == Some(true))
}

fn profile(global: &Global) -> Result<Profile, Failure> {
    let (path, named) = match &global.profile_file {
        Some(path) => (path.clone(), true),
        None => match config_folder() {
            Some(folder) => (folder.join("profile.toml"), false),
            None => return Ok(Profile::default()),
        },
    };
    if !named && !path.exists() {
        return Ok(Profile::default());
    }
    let text = fs::read_to_string(&path).map_err(|error| {
        Failure::Usage(format!(
            "cannot read the profile {}: {error}",
            path.display()
        ))
    })?;
    let mut profile: Profile = toml::from_str(&text).map_err(|error| {
        Failure::Usage(format!(
            "the profile {} is malformed: {}",
            path.display(),
            error.message()
        ))
    })?;
    // paths in a profile are relative to it, so that it can be moved with its tokens
    let folder = path.parent().unwrap_or(Path::new("."));
    for file in [
        &mut profile.token_file,
        &mut profile.admin_token_file,
        &mut profile.identity_file,
    ] {
        *file = file.take().map(|f| folder.join(f));
    }
    Ok(profile)
}

/// The credential of a token file. What is no plain file, such as a pipe, can be read only once.
fn of_file(file: PathBuf, token: String) -> Credential {
    match file.is_file() {
        true => Credential::File(file),
        false => Credential::Given(token),
    }
}

/// The token in a file.
///
/// # Errors
/// It cannot be read, or has something else than one token.
pub fn read_token(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(|error| {
        Failure::Usage(format!(
            "cannot read the token file {}: {error}",
            file.display()
        ))
    })?;
    let token = text.trim();
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err(Failure::Usage(format!(
            "the token file {} must contain one token and nothing else",
            file.display()
        )));
    }
    Ok(token.to_owned())
}
