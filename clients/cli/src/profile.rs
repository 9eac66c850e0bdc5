//! Where the API is and which token is used: flags, environment, then the profile file.
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use url::Url;

use crate::args::Global;
use crate::failure::Failure;

/// The file that a development stack or an administrator hands out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// Base address of the API.
    pub api: Option<String>,
    /// File with the user's token.
    pub token_file: Option<PathBuf>,
    /// File with an administrator's token, used by `admin`, `nodes` and `slots`.
    pub admin_token_file: Option<PathBuf>,
    /// Private key for `gpuaas ssh` where the key of the launch is not known on this machine.
    pub identity_file: Option<PathBuf>,
}

/// What a command needs.
#[derive(Clone, Debug)]
pub struct Target {
    /// Base address.
    pub api: Url,
    /// The token, when there is one.
    pub token: Option<String>,
    /// Private key for logins whose own is unknown.
    pub identity: Option<PathBuf>,
}

/// Folder of the CLI's own settings: `$XDG_CONFIG_HOME/gpuaas` or `~/.config/gpuaas`.
fn config_folder() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CONFIG_HOME")
        .filter(|v| !v.is_empty())
        .map(PathBuf::from);
    base.or_else(|| std::env::home_dir().map(|home| home.join(".config")))
        .map(|base| base.join("gpuaas"))
}

/// Finds API and token.
///
/// # Errors
/// No API is named anywhere, or a named file cannot be used.
pub fn target(global: &Global, admin: bool) -> Result<Target, Failure> {
    let profile = profile(global)?;
    let api = global.api.clone().or(profile.api).ok_or_else(|| {
        Failure::Usage("no API address is set; use --api URL, GPUAAS_API, or a profile file with --profile-file FILE".to_owned())
    })?;
    let api = Url::parse(&api)
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
    let from_profile = if admin {
        profile.admin_token_file.or(profile.token_file)
    } else {
        profile.token_file
    };
    let token = global
        .token_file
        .clone()
        .or(from_profile)
        .map(|file| read_token(&file))
        .transpose()?;
    Ok(Target {
        api,
        token,
        identity: profile.identity_file.filter(|file| file.exists()),
    })
}

/// Whether whoever runs a command is an administrator: it is a command of theirs, or the profile has their token.
pub fn is_admin(global: &Global, command: bool) -> bool {
    command || profile(global).is_ok_and(|profile| profile.admin_token_file.is_some())
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

fn read_token(file: &Path) -> Result<String, Failure> {
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
