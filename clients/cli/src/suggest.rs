//! Suggestions for commands that there are not: what people mean, and not what happens to look alike.
use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use strsim::levenshtein;

use crate::api::Api;
use crate::failure::Failure;

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
        .filter(|name| levenshtein(&given, name) <= MOST_DIFFERENCES.min(given.len() / 2));
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

/// The name that is most like what was typed, when one is alike enough to be meant.
pub fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_ascii_lowercase();
    let most = MOST_DIFFERENCES.min(given.chars().count() / 2);
    names
        .filter(|name| !name.is_empty())
        .map(|name| (levenshtein(&given, &name.to_ascii_lowercase()), name))
        .filter(|(count, _)| *count <= most)
        .min()
        .map(|(_, name)| name)
}

/// A refused launch with the nearest name where SKU, image or region are unknown: `given` has them in this order.
pub async fn names(api: &Api, failure: Failure, given: [&str; 3]) -> Failure {
    let Failure::Api(mut error) = failure else {
        return failure;
    };
    let (list, key, given) = match error.reason.as_str() {
        "SKU_UNKNOWN" => ("skus", "code", given[0]),
        "IMAGE_UNKNOWN" => ("images", "slug", given[1]),
        "REGION_UNKNOWN" => ("regions", "code", given[2]),
        _ => return Failure::Api(error),
    };
    if let Ok(found) = api.list(&[list], &[], list).await {
        let names = found.iter().filter_map(|one| one[key].as_str());
        error.nearest = nearest(given, names).map(str::to_owned);
    }
    Failure::Api(error)
}

/// A message about a name that there is not, with the nearest one.
pub fn with_nearest<'a>(
    message: String,
    given: &str,
    names: impl Iterator<Item = &'a str>,
) -> String {
    match nearest(given, names) {
        Some(near) => format!("{message}; did you mean {near}?"),
        None => message,
    }
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
        for (given, near) in [
            ("rm", None),
            ("frist", Some("first")),
            ("FIRST", Some("first")),
            ("lab-slise", Some("lab-slice")),
            ("", None),
            ("x", None),
            ("something-else", None),
        ] {
            let names = ["first", "lab-slice", "terminal", ""];
            assert_eq!(nearest(given, names.into_iter()), near, "{given}");
        }
    }
}
