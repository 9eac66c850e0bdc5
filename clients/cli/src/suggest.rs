//! Suggestions for commands that there are not: what people mean, and not what happens to look similar.
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use strsim::levenshtein;

/// What people mean by the names that other tools give to commands: the first of the left that there is where it was typed.
const MEANT: [(&[&str], &[&str]); 16] = [
    (
        &["release", "delete", "remove", "end", "close", "disable"],
        &[
            "rm",
            "del",
            "delete",
            "destroy",
            "terminate",
            "remove",
            "kill",
            "cancel",
            "release",
        ],
    ),
    (&["list"], &["ps", "allocations"]),
    (
        &["show"],
        &["get", "describe", "info", "inspect", "status", "show"],
    ),
    (
        &["launch", "create", "add", "set"],
        &["run", "create", "new", "up", "add", "launch"],
    ),
    (&["ssh"], &["login", "connect"]),
    (&["terminal"], &["shell", "exec", "console", "attach"]),
    (&["watch"], &["logs", "events", "tail"]),
    (&["metrics"], &["top", "stats", "monitor"]),
    (&["reboot"], &["restart", "reset"]),
    (&["rescue"], &["recover", "recovery", "repair"]),
    (&["usage"], &["cost", "costs", "billing", "bill"]),
    (&["quota"], &["limits", "limit"]),
    (&["sku"], &["products", "prices", "types", "flavors"]),
    (&["node"], &["hosts", "host"]),
    (&["organisation"], &["org", "orgs"]),
    (&["reservation"], &["reserve"]),
];
/// More differences than this are another word.
const MOST_DIFFERENCES: usize = 2;

/// The error of these arguments to the program with the suggestions that help.
pub fn better(
    mut error: Error,
    program: Command,
    arguments: impl Iterator<Item = String>,
) -> Error {
    let is_unknown = matches!(
        error.kind(),
        ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument
    );
    let arguments: Vec<String> = arguments.collect();
    if is_unknown && let Some(path) = of_operators(&program, &arguments) {
        let tip = format!("operators have the command: gpuaas {path}").into();
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
        return error;
    }
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let arguments = arguments.into_iter();
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let given = given.clone();
    let siblings = siblings(program, &given, arguments);
    let meant = meant(&given, &siblings).map(str::to_owned);
    let similar = match error.remove(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names,
        Some(ContextValue::String(name)) => vec![name],
        _ => Vec::new(),
    };
    let similar = similar
        .into_iter()
        .filter(|name| levenshtein(&given, name) <= MOST_DIFFERENCES.min(given.len() / 2))
        // and no second name of one
        .filter(|name| siblings.contains(name))
        .filter(|name| Some(name) != meant.as_ref());
    let names: Vec<String> = meant.iter().cloned().chain(similar).collect();
    if !names.is_empty() {
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(names),
        );
    }
    error
}

/// The command below `admin` that these words name, when outside of it they lead less far: what only operators do is there.
fn of_operators(program: &Command, arguments: &[String]) -> Option<String> {
    let admin = program.find_subcommand("admin")?;
    let words: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|word| !word.starts_with('-'))
        .skip_while(|word| {
            program.find_subcommand(word).is_none() && admin.find_subcommand(word).is_none()
        })
        .collect();
    let path = path(admin, &words);
    (path.len() > self::path(program, &words).len()).then(|| format!("admin {}", path.join(" ")))
}

/// The commands that these words lead to, one below the other.
fn path<'a>(mut command: &'a Command, words: &[&str]) -> Vec<&'a str> {
    let mut path = Vec::new();
    for word in words {
        let Some(below) = command.find_subcommand(word) else {
            break;
        };
        path.push(below.get_name());
        command = below;
    }
    path
}

/// The commands that there are where an unknown one was typed.
fn siblings(
    mut command: Command,
    unknown: &str,
    arguments: impl Iterator<Item = String>,
) -> Vec<String> {
    for argument in arguments.take_while(|argument| argument != unknown) {
        if let Some(below) = command.find_subcommand(&argument) {
            command = below.clone();
        }
    }
    let names = command.get_subcommands().filter(|one| !one.is_hide_set());
    names
        .flat_map(Command::get_name_and_visible_aliases)
        .map(str::to_owned)
        .collect()
}

fn meant(given: &str, siblings: &[String]) -> Option<&'static str> {
    let (commands, _) = MEANT.iter().find(|(_, names)| names.contains(&given))?;
    let is_there = |command: &&&str| siblings.iter().any(|one| one == **command);
    commands.iter().find(is_there).copied()
}

/// The name that is most like what was typed, when one is similar enough to be meant.
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
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn other_tools_names_lead_to_the_command_that_is_meant() {
        for (typed, command) in [
            ("rm", Some("release")),
            ("ps", Some("list")),
            ("inspect", Some("show")),
            ("frobnicate", None),
            ("ssh-key rm", Some("delete")),
            ("--output json ssh-key ps", Some("list")),
            ("admin region create", Some("set")),
            ("admin region rm", Some("delete")),
            ("org", Some("organisation")),
        ] {
            let words: Vec<String> = typed.split(' ').map(str::to_owned).collect();
            let given = words.last().expect("a word");
            let siblings = siblings(Cli::command(), given, words.iter().cloned());
            assert_eq!(meant(given, &siblings), command, "{typed}");
        }
    }

    #[test]
    fn what_only_operators_do_is_found_below_admin() {
        for (typed, command) in [
            ("node describe gpu-07", Some("admin node show")),
            ("nodes cordon gpu-07", Some("admin node cordon")),
            ("--output json slot approve", Some("admin slot approve")),
            ("region set eu --name x", Some("admin region set")),
            ("principals ls", Some("admin principal list")),
            (
                "organisation create acme",
                Some("admin organisation create"),
            ),
            ("capacity", Some("admin capacity")),
            ("nodes", Some("admin node")),
            ("nodes frobnicate", Some("admin node")),
            ("project show x y", None),
            ("admin node frobnicate", None),
            ("frobnicate", None),
        ] {
            let words: Vec<String> = typed.split(' ').map(str::to_owned).collect();
            let found = of_operators(&crate::aliases::command(), &words);
            assert_eq!(found.as_deref(), command, "{typed}");
        }
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
