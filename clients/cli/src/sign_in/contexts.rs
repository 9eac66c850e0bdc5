//! Contexts: an API, where to sign in for it, and the tokens of the last sign-in, in one file of mode 0600.
//!
//! Two commands at once never lose what the other wrote, nor use one refresh token twice: whoever changes the file holds
//! a lock on a file beside it, and reads again under it.
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use url::Url;

use crate::failure::Failure;

/// Everything that is in the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Contexts {
    /// The context that commands use when they name none.
    pub current: Option<String>,
    /// By name.
    pub contexts: BTreeMap<String, Context>,
}

/// One API and who is signed in there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Context {
    /// Base address.
    pub api: Url,
    /// The identity provider.
    pub issuer: String,
    /// This program's id there.
    pub client_id: String,
    /// Where tokens are renewed.
    pub token_endpoint: Url,
    /// Where a sign-in is ended, when the provider can do that.
    pub revocation_endpoint: Option<Url>,
    /// What the provider needs in each request besides.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// Who is signed in.
    pub principal: String,
    /// Whether they were a platform administrator then: advice is worded for them.
    #[serde(default)]
    pub is_admin: bool,
    /// Nothing after signing out.
    pub tokens: Option<Tokens>,
    /// What commands are about that name no project.
    #[serde(default)]
    pub project: Option<DefaultProject>,
}

/// The project of a context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultProject {
    /// Its id.
    pub id: String,
    /// Its slug, for people.
    pub name: String,
}

/// What the identity provider gave.
#[derive(Clone, Serialize, Deserialize)]
pub struct Tokens {
    /// Sent to the API.
    pub access_token: String,
    /// When it ends, in seconds since 1970.
    pub expires: i64,
    /// Renews it.
    pub refresh_token: Option<String>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens")
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

impl Contexts {
    /// A context by its name.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, name: &str) -> Result<&Context, Failure> {
        self.contexts.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
            let known = match known.is_empty() {
                true => "there is none; create one with gpuaas login".to_owned(),
                false => format!("there are: {}", known.join(", ")),
            };
            Failure::NotFound(format!("no context has the name {name:?}; {known}"))
        })
    }

    /// The context in use, with its name.
    pub fn in_use(&self) -> Option<(&str, &Context)> {
        let name = self.current.as_deref()?;
        Some((name, self.contexts.get(name)?))
    }

    /// A context of this API with its name; the one in use before others.
    pub fn of_api(&self, api: &Url) -> Option<(&str, &Context)> {
        let others = self.contexts.iter().map(|(name, one)| (name.as_str(), one));
        let mut candidates = self.in_use().into_iter().chain(others);
        candidates.find(|(_, one)| one.api == *api)
    }
}

/// The file.
#[derive(Clone, Debug)]
pub struct ContextFile(PathBuf);

/// The file while nobody else may change it.
pub struct Locked {
    file: ContextFile,
    _lock: File,
}

/// Folder of the CLI's own settings: `$XDG_CONFIG_HOME/gpuaas` or `~/.config/gpuaas`.
pub fn config_folder() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CONFIG_HOME")
        .filter(|v| !v.is_empty())
        .map(PathBuf::from);
    base.or_else(|| std::env::home_dir().map(|home| home.join(".config")))
        .map(|base| base.join("gpuaas"))
}

impl ContextFile {
    /// Where it is for this user.
    ///
    /// # Errors
    /// The user has no home folder.
    pub fn of_user() -> Result<Self, Failure> {
        let folder = config_folder();
        let folder = folder.ok_or_else(|| {
            Failure::Usage("you have no home folder; set XDG_CONFIG_HOME to keep a sign-in".into())
        })?;
        Ok(Self(folder.join("contexts.json")))
    }

    /// What is in it; nothing when it does not exist.
    ///
    /// # Errors
    /// Others may read it, or it cannot be read.
    pub fn read(&self) -> Result<Contexts, Failure> {
        let path = self.0.display();
        let text = match fs::read_to_string(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contexts::default()),
            Err(error) => return Err(Failure::Local(format!("cannot read {path}: {error}"))),
        };
        let mode = fs::metadata(&self.0).map_or(0, |found| found.mode());
        if mode & 0o077 != 0 {
            return Err(Failure::Local(format!(
                "{path} holds tokens and others may read it; sign out and in again, or run: chmod 600 {path}"
            )));
        }
        serde_json::from_str(&text).map_err(|error| {
            Failure::Local(format!(
                "{path} is malformed ({error}); delete it and run gpuaas login"
            ))
        })
    }

    /// Waits until nobody else changes it.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn lock(&self) -> Result<Locked, Failure> {
        let folder = self.0.parent().unwrap_or(Path::new("."));
        let locked = || {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
            let lock = OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o600)
                .open(self.0.with_extension("lock"))?;
            lock.lock()?;
            Ok(lock)
        };
        let lock = locked().map_err(|error: io::Error| {
            Failure::Local(format!("cannot use {}: {error}", folder.display()))
        })?;
        Ok(Locked {
            file: self.clone(),
            _lock: lock,
        })
    }
}

impl Locked {
    /// What is in it now.
    ///
    /// # Errors
    /// See [`ContextFile::read`].
    pub fn read(&self) -> Result<Contexts, Failure> {
        self.file.read()
    }

    /// Replaces it, at once and whole.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, contexts: &Contexts) -> Result<(), Failure> {
        let path = &self.file.0;
        let beside = path.with_extension("new");
        let written = || {
            // one that a command left when it was killed
            let _ = fs::remove_file(&beside);
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&beside)?;
            file.write_all(serde_json::to_string_pretty(contexts)?.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, path)
        };
        written()
            .map_err(|error| Failure::Local(format!("cannot write {}: {error}", path.display())))
    }
}
