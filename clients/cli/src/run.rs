//! From the command line to the command.
use clap::CommandFactory as _;

use crate::api::{Api, IdempotencyKey};
use crate::args::{Cli, Command};
use crate::commands::{
    activity, admin, api, api_keys, catalog, certificate, completion, context, cp, explain, grants,
    health_events, ingress, launch, list, login, logs, members, metrics, network, organisations,
    port_forward, power, projects, quotas, release, rename, reservations, service_accounts, show,
    ssh, ssh_keys, terminal, terminal_sessions, tunnel, update, usage, wait, watch, webhooks,
};
use crate::failure::Failure;
use crate::session::Session;
use crate::{formats, profile};

/// Runs a command.
///
/// # Errors
/// See [`Failure`].
pub async fn run(cli: Cli) -> Result<(), Failure> {
    if let Command::Admin(admin::Command::Audit(admin::audit::Command::Verify(flags))) =
        &cli.command
        && let Some(file) = flags.file()
    {
        return admin::trail::verify_file(file, flags);
    }
    let command = match cli.command {
        Command::Completion { shell } => {
            completion::print(shell, &mut Cli::command());
            return Ok(());
        }
        Command::Man { folder } => return completion::pages(folder.as_deref(), Cli::command()),
        Command::Login(flags) => return login::login(&cli.global, &flags).await,
        Command::Logout => return login::logout(&cli.global).await,
        Command::Context(command) => return context::run(&cli.global, command).await,
        Command::Admin(admin::Command::Certificate(admin::certificate::Command::Verify(flags))) => {
            return admin::certificate::verify_file(&flags);
        }
        command => command,
    };
    let target = profile::target(&cli.global, command.is_admin())?;
    let session = Session {
        identity: target.identity.clone(),
        environment: cli.global.environment(),
        api: Api::new(target)?,
        format: formats::chosen(),
        key: IdempotencyKey::new(cli.global.idempotency_key),
    };
    match command {
        Command::Launch(flags) => launch::run(&session, flags).await,
        Command::List(flags) => list::run(&session, flags).await,
        Command::Watch(flags) => watch::run(&session, flags).await,
        Command::Show(flags) => show::run(&session, &flags).await,
        Command::Wait(flags) => wait::run(&session, &flags).await,
        Command::Ssh(flags) => ssh::run(&session, flags).await,
        Command::Terminal(flags) => terminal::run(&session, &flags).await,
        Command::TerminalSession(command) => terminal_sessions::run(&session, command).await,
        Command::HealthEvent(command) => health_events::run(&session, command).await,
        Command::Tunnel(flags) => tunnel::run(&session, &flags).await,
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
        Command::Ingress(command) => ingress::run(&session, command).await,
        Command::Activity(flags) => activity::run(&session, flags).await,
        Command::Network(flags) => network::run(&session, flags).await,
        Command::Sku(catalog::SkuCommand::List(selected)) => {
            catalog::skus(&session, &selected).await
        }
        Command::Image(catalog::ImageCommand::List(flags)) => {
            catalog::images(&session, flags).await
        }
        Command::Region(catalog::RegionCommand::List(selected)) => {
            catalog::regions(&session, &selected).await
        }
        Command::Availability(flags) => catalog::availability(&session, flags).await,
        Command::Reservation(command) => reservations::run(&session, command).await,
        Command::Explain(flags) => explain::run(&session, flags).await,
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
        Command::Cp(flags) => cp::run(&session, flags).await,
        Command::PortForward(flags) => port_forward::run(&session, flags).await,
        Command::Api(flags) => api::run(&session, flags).await,
        Command::Whoami => login::whoami(&session).await,
        Command::Completion { .. }
        | Command::Man { .. }
        | Command::Login(_)
        | Command::Logout
        | Command::Context(_) => unreachable!("they need no API"),
    }
}
