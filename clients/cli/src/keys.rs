//! SSH public keys of this machine. A private key is never read.
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Names that OpenSSH gives to keys, in the order in which it offers them.
const DEFAULTS: [&str; 5] = [
    "id_ed25519.pub",
    "id_ed25519_sk.pub",
    "id_ecdsa.pub",
    "id_ecdsa_sk.pub",
    "id_rsa.pub",
];

/// Names of stored keys and keys of files, of what flags give: what no file here has is a name. A private key is a file, and
/// refused as one.
///
/// # Errors
/// Those of [`read`].
pub fn of_flags(given: &[PathBuf]) -> Result<(Vec<String>, Vec<PublicKey>), Failure> {
    let is_name = |one: &PathBuf| one.to_str().is_some_and(is_key_name) && !one.exists();
    let (names, files): (Vec<_>, Vec<_>) = given.iter().cloned().partition(is_name);
    let names = names
        .iter()
        .map(|name| name.display().to_string())
        .collect();
    if files.is_empty() && !given.is_empty() {
        return Ok((names, Vec::new()));
    }
    Ok((names, read(&files, "--ssh-key")?))
}

/// Whether a text can be the name of a stored key, and is not meant as a file.
fn is_key_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !text.is_empty() && !text.ends_with(".pub") && text.chars().all(plain)
}

/// The public key that OpenSSH itself would offer first, if there is one.
pub fn usual() -> Option<PathBuf> {
    let folder = std::env::home_dir()?.join(".ssh");
    let mut files = DEFAULTS.iter().map(|name| folder.join(name));
    files.find(|file| file.is_file())
}

/// The given keys; without any, the [`usual`] one, which is told with the `flag` that chooses another.
///
/// # Errors
/// One cannot be read, is no public key, or none is given and none is there.
pub fn read(files: &[PathBuf], flag: &str) -> Result<Vec<PublicKey>, Failure> {
    if !files.is_empty() {
        return files.iter().map(|file| PublicKey::read(file)).collect();
    }
    let Some(file) = usual() else {
        return Err(Failure::Usage(format!(
            "no SSH public key in ~/.ssh; name one with {flag} FILE, or create one: ssh-keygen -t ed25519"
        )));
    };
    let key = PublicKey::read(&file)?;
    note!(
        "SSH key {}. Choose another one with {flag} FILE.",
        file.display()
    );
    Ok(vec![key])
}

/// A public key, and its private half when that lies beside it.
#[derive(Debug)]
pub struct PublicKey {
    /// Its lines as in the file.
    pub line: String,
    /// The private half.
    pub private: Option<PathBuf>,
}

impl PublicKey {
    /// The line of the key itself.
    pub fn own_line(&self) -> &str {
        let mut lines = self.line.lines();
        lines
            .find(|line| !line.starts_with('#'))
            .unwrap_or_default()
    }

    /// A name out of the comment of the key, such as that of the machine it was made on.
    ///
    /// # Errors
    /// It has none.
    pub fn name(&self) -> Result<String, Failure> {
        let comment: Vec<&str> = self.own_line().split_whitespace().skip(2).collect();
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name: String = comment
            .join("-")
            .chars()
            .map(|c| if plain(c) { c } else { '-' })
            .collect();
        let name = name
            .trim_start_matches(|c: char| !c.is_ascii_alphanumeric())
            .trim_end_matches('-');
        let name: String = name.chars().take(MAX_NAME).collect();
        if name.is_empty() {
            return Err(Failure::Usage(
                "the key has no comment to name it after; say a name: gpuaas ssh-key create NAME"
                    .to_owned(),
            ));
        }
        Ok(name)
    }

    /// Reads a `.pub` file; for a private key's path, the `.pub` beside it. A private key is never read.
    fn read(file: &Path) -> Result<Self, Failure> {
        let is_public = file.extension().is_some_and(|e| e == "pub");
        let beside = PathBuf::from(format!("{}.pub", file.display()));
        let public = if !is_public && beside.exists() {
            beside
        } else {
            file.to_owned()
        };
        let text = fs::read_to_string(&public).map_err(|error| {
            Failure::Usage(format!(
                "cannot read the SSH key {}: {error}",
                public.display()
            ))
        })?;
        if text.contains("PRIVATE KEY") {
            return Err(Failure::Usage(format!(
                "{} is a private key; use the public key (.pub)",
                public.display()
            )));
        }
        let private = public
            .extension()
            .filter(|e| *e == "pub")
            .map(|_| public.with_extension(""))
            .filter(|p| p.exists());
        let private = private.map(|p| fs::canonicalize(&p).unwrap_or(p));
        if !text.lines().any(is_public_key) || !text.lines().all(is_key_line) {
            return Err(Failure::Usage(format!(
                "{} is not an OpenSSH public key; use a file such as ~/.ssh/id_ed25519.pub, or create one: ssh-keygen -t ed25519",
                public.display()
            )));
        }
        Ok(Self {
            line: text.trim().to_owned(),
            private,
        })
    }
}

/// Most characters of the name of a stored key.
const MAX_NAME: usize = 63;

/// Kinds of keys that OpenSSH writes.
const KEY_KINDS: [&str; 7] = [
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// Whether a line is a kind and its data in base64. The API judges the data; this keeps other files on this machine.
fn is_public_key(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let data = words.next().unwrap_or_default();
    let base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    KEY_KINDS.contains(&kind) && data.starts_with("AAAA") && data.chars().all(base64)
}

fn is_key_line(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#') || is_public_key(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_the_name_of_a_kept_key() {
        let dir = tempfile::tempdir().expect("temp dir");
        let file = dir.path().join("id.pub");
        fs::write(&file, "ssh-ed25519 AAAA me\n").expect("write");
        let (names, keys) = of_flags(&[PathBuf::from("laptop"), file]).expect("both");
        assert_eq!((names, keys.len()), (vec!["laptop".to_owned()], 1));
        let (names, keys) = of_flags(&[PathBuf::from("laptop")]).expect("a name");
        assert_eq!((names.len(), keys.len()), (1, 0));
        for missing in ["/nowhere", "missing.pub", "a b"] {
            assert!(of_flags(&[PathBuf::from(missing)]).is_err(), "{missing}");
        }
    }

    #[test]
    fn a_key_is_named_after_its_comment() {
        let key = |comment: &str| PublicKey {
            line: format!("# mine\nssh-ed25519 AAAA {comment}"),
            private: None,
        };
        for (comment, name) in [
            ("alice@laptop", "alice-laptop"),
            ("my  work key!", "my-work-key"),
            ("_x.y", "x.y"),
        ] {
            assert_eq!(key(comment).name().expect("a name"), name);
        }
        assert!(
            key(&"a".repeat(99))
                .name()
                .is_ok_and(|name| name.len() == MAX_NAME)
        );
        assert_eq!(key(" ").name().expect_err("none").exit_code(), 2);
    }

    #[test]
    fn a_private_key_is_refused_and_its_public_half_preferred() {
        let dir = tempfile::tempdir().expect("temp dir");
        let private = dir.path().join("id");
        fs::write(&private, "-----BEGIN OPENSSH PRIVATE KEY-----").expect("write");
        assert_eq!(
            PublicKey::read(&private).expect_err("private").exit_code(),
            2
        );
        fs::write(dir.path().join("id.pub"), "ssh-ed25519 AAAA me\n").expect("write");
        let key = PublicKey::read(&private).expect("public half");
        assert_eq!(key.line, "ssh-ed25519 AAAA me");
        assert_eq!(key.private, fs::canonicalize(&private).ok());
    }
}
