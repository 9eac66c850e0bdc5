//! `--filter` and `--sort` of lists, in the language of the API, and `--etag` of changes of what was read.
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::LazyLock;

use clap::{ArgMatches, Args, FromArgMatches};
use prost::{Message as _, Name};
use prost_types::FileDescriptorSet;

/// What a list is narrowed to, and its order.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Selected {
    /// Filter expression, such as 'FIELD = VALUE AND FIELD2 = VALUE2'.
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    /// Order, such as 'FIELD, FIELD2 desc'.
    #[arg(long, value_name = "FIELDS")]
    sort: Option<String>,
}

/// The same of the list that this request asks for: its help has the fields of that list.
#[derive(Debug)]
pub struct SelectedOf<R> {
    selected: Selected,
    request: PhantomData<fn() -> R>,
}

/// The contract with its comments.
static CONTRACT: LazyLock<FileDescriptorSet> =
    LazyLock::new(|| FileDescriptorSet::decode(gpuaas_proto::DESCRIPTORS).unwrap_or_default());

/// Field number of messages in a file, and of fields in a message, as paths of comments have them.
const MESSAGES: i32 = 4;
const FIELDS: i32 = 2;

/// What the contract says of a field of a message, for people; nothing where there is none.
fn comment(message: &str, field: &str) -> Option<String> {
    let (package, name) = message.rsplit_once('.')?;
    let mut files = CONTRACT
        .file
        .iter()
        .filter(|file| file.package() == package);
    files.find_map(|file| {
        let at = file
            .message_type
            .iter()
            .position(|one| one.name() == name)?;
        let fields = &file.message_type.get(at)?.field;
        let of_it = fields.iter().position(|one| one.name() == field)?;
        let path = [
            MESSAGES,
            at.try_into().ok()?,
            FIELDS,
            of_it.try_into().ok()?,
        ];
        let places = &file.source_code_info.as_ref()?.location;
        let comment = places.iter().find(|place| place.path == path)?;
        let words: Vec<&str> = comment.leading_comments().split_whitespace().collect();
        Some(words.join(" ").replace('`', "'"))
    })
}

/// What the guide says is not repeated in each help.
const GUIDE: &str = " See \"Filters and orders\" of the guide for integrators.";

impl<R: Name> Args for SelectedOf<R> {
    fn augment_args(command: clap::Command) -> clap::Command {
        let request = R::full_name();
        let mut command = Selected::augment_args(command);
        for (arg, field) in [("filter", "filter"), ("sort", "order_by")] {
            if let Some(told) = comment(&request, field) {
                command = command.mut_arg(arg, |arg| arg.help(told.replace(GUIDE, "")));
            }
        }
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<R> FromArgMatches for SelectedOf<R> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            selected: Selected::from_arg_matches(matches)?,
            request: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.selected.update_from_arg_matches(matches)
    }
}

impl<R> Deref for SelectedOf<R> {
    type Target = Selected;

    fn deref(&self) -> &Selected {
        &self.selected
    }
}

/// What a change is made to.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Read {
    /// Etag of the version that you read (`--output json` shows it): the change is refused if the object has changed since
    /// [default: not checked].
    #[arg(
        long,
        value_name = "ETAG",
        default_value = "",
        hide_default_value = true
    )]
    pub etag: String,
}

impl Selected {
    /// Whether an empty list may have left something out.
    pub fn narrows(&self) -> bool {
        self.filter.is_some()
    }

    /// The filter of the request.
    pub fn filter(&self) -> String {
        self.filter.clone().unwrap_or_default()
    }

    /// The order of the request.
    pub fn order_by(&self) -> String {
        self.sort.clone().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::args::Cli;

    /// Names of fields are read, not guessed.
    #[test]
    fn the_help_of_every_list_names_its_fields() {
        fn look(command: &clap::Command, seen: &mut usize) {
            for arg in command.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let name = command.get_name();
                match arg.get_id().as_str() {
                    "filter" => {
                        assert!(help.contains("Fields: "), "{name}: {help}");
                        *seen += 1;
                    }
                    // the only field has no list
                    "sort" => assert!(
                        help.contains("Fields: ") || help.contains("(default) or"),
                        "{name}: {help}"
                    ),
                    _ => {}
                }
            }
            for one in command.get_subcommands() {
                look(one, seen);
            }
        }
        let mut seen = 0;
        look(&Cli::command(), &mut seen);
        assert!(seen > 40, "{seen}");
    }
}
