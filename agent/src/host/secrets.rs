//! What a recording of a host leaves out, since it may be a secret.

/// A line with one of these words is left out of a text.
const SECRET_WORDS: [&str; 7] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "psk",
    "token",
    // of SNMP, as a management controller tells it
    "community",
];

/// A text without the lines that may have a secret.
pub fn without_secrets(text: &str) -> String {
    let line = |line: &str| match is_secret(line) {
        true if line.ends_with('\n') => "# left out\n".to_owned(),
        true => "# left out".to_owned(),
        false => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Whether a line, or what has this name, may be a secret.
pub fn is_secret(line: &str) -> bool {
    let lower = line.to_lowercase();
    SECRET_WORDS.iter().any(|word| lower.contains(word))
}
