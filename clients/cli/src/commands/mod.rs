//! One module per command, or per family of small ones.
pub mod admin;
pub mod api_keys;
pub mod catalog;
pub mod certificate;
pub mod completion;
pub mod context;
pub mod copy;
pub mod explain;
pub mod grants;
pub mod hosts;
pub mod launch;
pub mod list;
pub mod login;
pub mod logs;
pub mod members;
pub mod metrics;
pub mod network;
pub mod organisations;
pub mod place;
pub mod port_forward;
pub mod power;
pub mod projects;
pub mod quotas;
pub mod raw;
pub mod release;
pub mod rename;
pub mod reservations;
mod scim;
pub mod select;
pub mod service_accounts;
pub mod show;
pub mod ssh;
pub mod ssh_keys;
pub mod terminal;
pub mod update;
pub mod usage;
pub mod watch;
pub mod webhooks;

use std::path::PathBuf;

use serde_json::Value;

use crate::api::{Api, IdempotencyKey};
use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::formats::{self, Format};
use crate::output::print_json;
use crate::profile;

/// The context of every command.
pub struct Session {
    /// The API.
    pub api: Api,
    /// Output format.
    pub format: Format,
    /// Idempotency key of the change that this command makes.
    pub key: IdempotencyKey,
    /// Private key for logins whose own is unknown.
    pub identity: Option<PathBuf>,
}

impl Session {
    /// Whether the output is for programs.
    pub fn json(&self) -> bool {
        self.format.is_data()
    }
}

/// Who runs the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A member of a project.
    Member,
    /// An administrator.
    Operator,
}

/// Runs a command.
///
/// # Errors
/// See [`Failure`].
pub async fn run(cli: Cli) -> Result<(), Failure> {
    let command = match cli.command {
        Command::Completion { shell } => return completion::print(shell),
        Command::Man { folder } => return completion::pages(folder.as_deref()),
        Command::Login(flags) => return login::login(&cli.global, &flags).await,
        Command::Logout => return login::logout(&cli.global).await,
        Command::Context(command) => return context::run(&cli.global, command),
        Command::Admin(admin::Command::Certificate(admin::certificate::Command::Verify(flags))) => {
            return admin::certificate::verify_file(&flags);
        }
        command => command,
    };
    let target = profile::target(&cli.global, command.is_admin())?;
    let session = Session {
        identity: target.identity.clone(),
        api: Api::new(target)?,
        format: formats::chosen(),
        key: IdempotencyKey::new(cli.global.idempotency_key),
    };
    match command {
        Command::Launch(flags) => launch::run(&session, flags).await,
        Command::List(flags) => list::run(&session, flags).await,
        Command::Watch(flags) => watch::run(&session, flags).await,
        Command::Show(flags) => show::run(&session, &flags).await,
        Command::Ssh(flags) => ssh::run(&session, flags).await,
        Command::Terminal(flags) => terminal::run(&session, &flags).await,
        Command::Logs(flags) => logs::run(&session, &flags).await,
        Command::Metrics(flags) => metrics::run(&session, &flags).await,
        Command::Stop(flags) => power::forced(&session, &flags, power::Verb::Stop).await,
        Command::Start(flags) => power::start(&session, &flags).await,
        Command::Reboot(flags) => power::forced(&session, &flags, power::Verb::Reboot).await,
        Command::Rescue(flags) => power::rescue(&session, &flags).await,
        Command::Unrescue(flags) => power::forced(&session, &flags, power::Verb::Unrescue).await,
        Command::Release(flags) => release::run(&session, &flags).await,
        Command::Certificate(flags) => certificate::run(&session, &flags).await,
        Command::Usage(flags) => usage::run(&session, flags).await,
        Command::Quota(flags) => quotas::run(&session, flags).await,
        Command::Network(flags) => network::run(&session, flags).await,
        Command::Skus(selected) => catalog::skus(&session, &selected).await,
        Command::Images(flags) => catalog::images(&session, flags).await,
        Command::Regions => catalog::regions(&session).await,
        Command::Availability(flags) => catalog::availability(&session, flags).await,
        Command::Reservations(command) => reservations::run(&session, command).await,
        Command::Explain(flags) => explain::run(&session, flags).await,
        Command::Nodes(flags) => hosts::nodes(&session, &flags).await,
        Command::Slots(flags) => hosts::slots(&session, &flags).await,
        Command::Admin(command) => admin::run(&session, command).await,
        Command::SshKey(command) => ssh_keys::run(&session, command).await,
        Command::Project(command) => projects::run(&session, command).await,
        Command::Grant(command) => grants::run(&session, command).await,
        Command::Member(command) => members::run(&session, command).await,
        Command::Organisation(command) => organisations::run(&session, command).await,
        Command::Webhook(command) => webhooks::run(&session, command).await,
        Command::ServiceAccount(command) => service_accounts::run(&session, command).await,
        Command::ApiKey(command) => api_keys::run(&session, command).await,
        Command::Rename(flags) => rename::run(&session, &flags).await,
        Command::Update(flags) => update::run(&session, &flags).await,
        Command::Cp(flags) => copy::run(&session, flags).await,
        Command::PortForward(flags) => port_forward::run(&session, flags).await,
        Command::Api(flags) => raw::run(&session, flags).await,
        Command::Whoami => login::whoami(&session).await,
        Command::Completion { .. }
        | Command::Man { .. }
        | Command::Login(_)
        | Command::Logout
        | Command::Context(_) => unreachable!("they need no API"),
    }
}

/// Prints the result as a sentence, or the answer for programs.
pub fn done(session: &Session, answer: &Value, sentence: &str) {
    if session.json() {
        print_json(answer);
    } else {
        say!("{sentence}");
    }
}

/// The query parameters of the flags that were given.
pub fn given<const N: usize>(
    flags: [(&'static str, Option<String>); N],
) -> Vec<(&'static str, String)> {
    flags
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}
