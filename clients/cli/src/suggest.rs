//! Suggestions for commands that there are not: what people mean, and not what happens to look alike.
use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Commands under the names that other tools give them.
const MEANT: [(&str, &[&str]); 12] = [
    (
        "release",
        &[
            "rm",
            "delete",
            "del",
            "destroy",
            "terminate",
            "remove",
            "kill",
            "cancel",
        ],
    ),
    ("list", &["ls", "ps", "allocations"]),
    ("show", &["get", "describe", "info", "inspect", "status"]),
    ("launch", &["run", "create", "new", "up"]),
    ("ssh", &["login", "connect"]),
    ("terminal", &["shell", "exec", "console", "attach"]),
    ("watch", &["logs", "events", "tail"]),
    ("reboot", &["restart", "reset"]),
    ("usage", &["cost", "costs", "billing", "bill"]),
    ("quota", &["quotas", "limits", "limit"]),
    ("skus", &["sku", "products", "prices", "types", "flavors"]),
    ("nodes", &["node", "hosts", "host"]),
];
/// More differences than this are another word.
const MOST_DIFFERENCES: usize = 2;

/// The error with the suggestions that help.
pub fn better(mut error: Error) -> Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let given = given.clone();
    let meant = meant(&given).map(str::to_owned);
    let alike = match error.remove(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names,
        Some(ContextValue::String(name)) => vec![name],
        _ => Vec::new(),
    };
    let alike = alike
        .into_iter()
        .filter(|name| differences(&given, name) <= MOST_DIFFERENCES.min(given.len() / 2));
    let names: Vec<String> = meant.into_iter().chain(alike).collect();
    if !names.is_empty() {
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(names),
        );
    }
    error
}

fn meant(given: &str) -> Option<&'static str> {
    MEANT
        .iter()
        .find(|(_, names)| names.contains(&given))
        .map(|(command, _)| *command)
}

/// Letters to insert, drop or change to get from one word to the other.
fn differences(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_tools_names_lead_to_the_command_that_is_meant() {
        for (given, command) in [("rm", "release"), ("ls", "list"), ("describe", "show")] {
            assert_eq!(meant(given), Some(command));
        }
        assert_eq!(meant("frobnicate"), None);
    }

    #[test]
    fn words_are_compared_letter_by_letter() {
        for (a, b, count) in [
            ("rm", "terminal", 6),
            ("lst", "list", 1),
            ("", "ab", 2),
            ("a", "a", 0),
        ] {
            assert_eq!(differences(a, b), count, "{a} {b}");
        }
    }
}
