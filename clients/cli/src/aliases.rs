//! Second names of commands, which work and are shown nowhere: the other number of a resource (`webhooks` for `webhook`), the
//! other words for showing one (`get` and `describe` for `show`), `ls` for `list`, and `put` for `set`. So one rule holds for all commands.
use clap::{Command, CommandFactory as _, Error, FromArgMatches as _};

use crate::args::Cli;

/// What commands are named after, in all of its forms.
const RESOURCES: [&[&str]; 29] = [
    &["agent-rollout", "agent-rollouts"],
    &["allocation", "allocations"],
    &["api-key", "api-keys"],
    &["break-fix", "break-fixes"],
    &["certificate", "certificates"],
    &["context", "contexts"],
    &["finding", "findings"],
    &["grant", "grants"],
    &["group", "groups"],
    &["guardrail", "guardrails"],
    &["health-event", "health-events"],
    &["image", "images"],
    &["key", "keys"],
    &["member", "members"],
    &["node", "nodes"],
    &[
        "organisation",
        "organisations",
        "organization",
        "organizations",
    ],
    &["price", "prices"],
    &["principal", "principals"],
    &["project", "projects"],
    &["quota", "quotas"],
    &["region", "regions"],
    &["report", "reports"],
    &["reservation", "reservations"],
    &["service-account", "service-accounts"],
    &["sku", "skus"],
    &["slot", "slots"],
    &["ssh-key", "ssh-keys"],
    &["terminal-session", "terminal-sessions"],
    &["webhook", "webhooks"],
];
/// Words for showing one of a resource, for listing them, and for creating or changing one.
const VERBS: [&[&str]; 3] = [
    &["show", "get", "describe"],
    &["list", "ls"],
    &["set", "put"],
];

/// The command line of this process.
///
/// # Errors
/// It names no command, or one with other arguments.
pub fn parse() -> Result<Cli, Error> {
    let matches = command().try_get_matches()?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command()))
}

/// The program with the second names of its commands.
pub fn command() -> Command {
    with(Cli::command())
}

fn with(command: Command) -> Command {
    let siblings: Vec<Vec<String>> = command.get_subcommands().map(names).collect();
    command.mut_subcommands(|one| {
        let own = names(&one);
        let more: Vec<&str> = RESOURCES
            .iter()
            .chain(&VERBS)
            .filter(|forms| is_any(&own, forms))
            // the forms of two commands side by side mean two things
            .filter(|forms| siblings.iter().filter(|names| is_any(names, forms)).count() == 1)
            .flat_map(|forms| forms.iter().copied())
            .filter(|form| !own.iter().any(|name| name == form))
            .collect();
        with(one.aliases(more))
    })
}

fn is_any(names: &[String], forms: &[&str]) -> bool {
    names.iter().any(|name| forms.contains(&name.as_str()))
}

/// What a command is called.
fn names(command: &Command) -> Vec<String> {
    let names = std::iter::once(command.get_name()).chain(command.get_all_aliases());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command that these words lead to.
    fn reached(words: &str) -> Option<String> {
        let mut command = command();
        let mut path = Vec::new();
        for word in words.split(' ') {
            command = command.find_subcommand(word)?.clone();
            path.push(command.get_name().to_owned());
        }
        Some(path.join(" "))
    }

    #[test]
    fn both_numbers_of_a_resource_and_all_words_for_showing_lead_to_its_command() {
        for (typed, command) in [
            ("webhooks list", Some("webhook list")),
            ("ssh-keys ls", Some("ssh-key list")),
            ("api-keys ls", Some("api-key list")),
            ("skus list", Some("sku list")),
            ("health-events ls", Some("health-event list")),
            ("reservations describe", Some("reservation show")),
            ("get", Some("show")),
            ("describe", Some("show")),
            ("ls", Some("list")),
            ("organization ls", Some("organisation list")),
            ("organisation members ls", Some("organisation member list")),
            (
                "organisation scim keys ls",
                Some("organisation scim key list"),
            ),
            (
                "organisation guardrails get",
                Some("organisation guardrail show"),
            ),
            ("admin fleet nodes ls", Some("admin fleet node list")),
            ("admin slots approve", Some("admin slot approve")),
            ("admin slots ls", Some("admin slot list")),
            ("admin nodes describe", Some("admin node show")),
            ("admin quotas get", Some("admin quota show")),
            ("admin quota put", Some("admin quota set")),
            ("admin organizations get", Some("admin organisation show")),
            ("admin agent-rollouts get", Some("admin agent-rollout show")),
            ("admin region show", None),
            ("launches", None),
        ] {
            assert_eq!(reached(typed).as_deref(), command, "{typed}");
        }
    }

    #[test]
    fn no_name_has_two_meanings() {
        command().debug_assert();
    }

    #[test]
    fn commands_side_by_side_keep_their_own_names() {
        let both = Command::new("x").subcommands([Command::new("show"), Command::new("get")]);
        let both = with(both);
        assert!(both.find_subcommand("describe").is_none());
        let found = both.find_subcommand("get").expect("a command");
        assert_eq!(found.get_name(), "get");
    }

    #[test]
    fn help_shows_none_of_them() {
        fn check(command: &mut Command) {
            let aliased = command.render_long_help().to_string();
            for one in command.get_subcommands() {
                let shown: Vec<&str> = one.get_visible_aliases().collect();
                let former = one.is_hide_set().then(|| one.get_name());
                let second = one.get_all_aliases().filter(|name| !shown.contains(name));
                for name in second.chain(former) {
                    let line = |line: &str| line.split_whitespace().next() == Some(name);
                    assert!(!aliased.lines().any(line), "{name}: {aliased}");
                }
            }
            command.get_subcommands_mut().for_each(check);
        }
        check(&mut command());
    }
}
