//! A running system of its own for the measurements, made of the programs beside the one that measures: a release
//! build measures release programs.
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use gpuaas_common::client::{GrpcChannel, Peers};
use gpuaas_common::config::Settings as CommonSettings;
use gpuaas_common::identity::TokenMinter;
use gpuaas_dev::ports::Instance;
use gpuaas_dev::process::Process;
use gpuaas_dev::seed::{self, Api, Tokens};
use gpuaas_dev::stack::{self, Kind, Options, Stack};
use sqlx::postgres::PgConnectOptions;
use tonic::transport::{Certificate, Identity};
use uuid::Uuid;

const INSTANCE: u16 = 61;
/// A service that knows the allocations.
pub const ALLOCATION: &str = "allocation";
/// The gateway, whose identity is also that of its peers.
pub const GATEWAY: &str = "gateway";

/// A started system.
pub struct System<'a> {
    /// Its parts.
    pub stack: &'a Stack,
    /// A member of the project.
    pub user: Api,
    /// Id of the project.
    pub project: String,
    minter: TokenMinter,
}

/// Settings by part, `section.key=value`.
pub type Settings<'a> = &'a [(&'a str, &'a str)];

/// What stands behind the services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosts {
    /// None.
    None,
    /// The lab's, which offers slices.
    Lab,
    /// One lab host with so many slots.
    LabOf(u16),
}

/// What a stack of the programs beside this one is made from.
///
/// # Errors
/// There is no such instance.
pub fn options(hosts: Hosts, settings: Settings<'_>) -> anyhow::Result<Options> {
    let folder = match hosts {
        Hosts::None => "bench/edge",
        Hosts::Lab => "bench/stack",
        Hosts::LabOf(_) => "bench/agent",
    };
    let root = gpuaas_dev::paths::run_dir().join(folder);
    let mut options = Options::beside(root, Instance::new(INSTANCE)?);
    options.lab = hosts != Hosts::None;
    if let Hosts::LabOf(slots) = hosts {
        options.slots = Some(slots);
    }
    let own = std::env::current_exe()?;
    let beside = own.parent().context("a program lies in a folder")?;
    // these alone: a program of another build would be measured unnoticed
    options.programs = vec![beside.to_path_buf()];
    for (part, setting) in settings {
        let all = options.settings.entry((*part).to_owned()).or_default();
        all.push((*setting).to_owned());
    }
    Ok(options)
}

/// Starts and seeds a system, measures it, and ends it, also when the measurement fails or is interrupted.
///
/// # Errors
/// The first part that does not come up; what the measurement says.
pub async fn with(
    hosts: Hosts,
    settings: Settings<'_>,
    measure: impl AsyncFnOnce(&System<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let options = options(hosts, settings)?;
    let stack = Stack::new(options)?;
    let running = async {
        let system = System::start(&stack).await?;
        measure(&system).await
    };
    let outcome = tokio::select! {
        outcome = running => outcome,
        signal = tokio::signal::ctrl_c() => signal.context("no signals").and_then(|()| anyhow::bail!("interrupted")),
    };
    stack.down()?;
    outcome
}

/// Some services of a stack alone, without edge and seed.
pub struct Services<'a> {
    /// The stack that they are of.
    pub stack: &'a Stack,
    minter: TokenMinter,
}

/// Starts these services with an empty database, measures them, and ends them, also when the measurement fails or is
/// interrupted.
///
/// # Errors
/// The first part that does not come up; what the measurement says.
pub async fn with_services(
    names: &[&str],
    settings: Settings<'_>,
    measure: impl AsyncFnOnce(&Services<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut options = options(Hosts::None, settings)?;
    options.root = options.root.with_file_name("services");
    let earlier = Stack::new(options.clone())?;
    earlier.down()?;
    earlier.purge()?;
    let stack = Stack::new(options)?;
    let kinds = names.iter().map(|name| Kind::find(name));
    let kinds: Vec<Kind> = kinds.collect::<Result<_, _>>()?;
    let running = async {
        stack.up_with(&kinds, &|line| eprintln!("{line}")).await?;
        let minter = minter(&stack)?;
        measure(&Services {
            stack: &stack,
            minter,
        })
        .await
    };
    let outcome = tokio::select! {
        outcome = running => outcome,
        signal = tokio::signal::ctrl_c() => signal.context("no signals").and_then(|()| anyhow::bail!("interrupted")),
    };
    stack.down()?;
    outcome
}

fn minter(stack: &Stack) -> anyhow::Result<TokenMinter> {
    let key = stack.authority().signing_key("internal-token")?.private;
    Ok(TokenMinter::from_pem(&std::fs::read_to_string(key)?)?)
}

async fn process_of(stack: &Stack, part: &str) -> anyhow::Result<Process> {
    let rows = stack.status().await?;
    let row = rows.into_iter().find(|row| row.part == part);
    row.and_then(|row| row.process)
        .with_context(|| format!("{part} does not run"))
}

impl Services<'_> {
    /// Folder of everything it keeps.
    pub fn root(&self) -> &Path {
        &self.stack.options().root
    }

    /// The process of a part.
    ///
    /// # Errors
    /// It does not run.
    pub async fn process(&self, part: &str) -> anyhow::Result<Process> {
        process_of(self.stack, part).await
    }

    /// A token as the gateway makes it for a call of an administrator to a service.
    ///
    /// # Errors
    /// Signing failed.
    pub fn admin_token(&self, service: &str) -> anyhow::Result<String> {
        let now = jiff::Timestamp::now().as_second();
        Ok(self.minter.mint(service, "user:bench", &[], true, now)?)
    }

    /// A channel to a service, opened as the gateway opens it and with its identity.
    ///
    /// # Errors
    /// A certificate cannot be read; there is no such service.
    pub fn peer(&self, service: &str) -> anyhow::Result<GrpcChannel> {
        let own = self.stack.authority().service(GATEWAY, &[])?;
        let authority = self.stack.authority().authority();
        let address = Kind::find(service)?.address(self.stack.options().instance, 1);
        let url = format!("https://{address}");
        let peers = Peers::new(
            [(service.to_owned(), url)],
            Certificate::from_pem(std::fs::read(authority.certificate)?),
            Identity::from_pem(std::fs::read(own.certificate)?, std::fs::read(own.key)?),
        );
        Ok(peers.channel(service)?)
    }

    /// How a role reaches the database.
    ///
    /// # Errors
    /// The server's folder cannot be read.
    pub fn database(&self, role: &str) -> anyhow::Result<PgConnectOptions> {
        Ok(self.stack.postgres()?.options(role, stack::DATABASE))
    }

    /// The settings that an agent has in common with all programs: where inventory hears hosts, and whom they trust.
    ///
    /// # Errors
    /// Inventory's settings cannot be read.
    pub fn agent_settings(&self) -> anyhow::Result<CommonSettings> {
        let file = self.stack.config_file("inventory");
        let own: toml::Table = std::fs::read_to_string(&file)?.parse()?;
        let listens = |name: &str| {
            let address = own.get("inventory")?.get(name)?.get(0)?.as_str()?;
            Some(format!("https://{address}"))
        };
        let url = |name: &str| listens(name).with_context(|| format!("no {name} in {file:?}"));
        let authority = self.stack.authority().authority().certificate;
        let settings = serde_json::json!({
            "cell": self.stack.options().cell,
            "server": {"listen": [], "metrics_listen": "127.0.0.1:0"},
            // an agent's own certificate is made by its enrolment
            "tls": {"ca_file": authority, "cert_file": "", "key_file": ""},
            "peers": {"inventory": url("host_listen")?, "inventory-enrolment": url("enrolment_listen")?},
        });
        Ok(serde_json::from_value(settings)?)
    }
}

impl<'a> System<'a> {
    async fn start(stack: &'a Stack) -> anyhow::Result<Self> {
        let quiet = |line: &str| eprintln!("{line}");
        stack.up(&quiet).await?;
        let project = seed::principals(stack)?;
        seed::all(stack, &quiet).await?;
        let file = Tokens::of(&stack.options().root).user;
        Ok(Self {
            user: Api::new(&stack.api_url(), &file)?,
            minter: minter(stack)?,
            stack,
            project,
        })
    }

    /// Folder of everything it keeps.
    pub fn root(&self) -> &Path {
        &self.stack.options().root
    }

    /// Where a service answers gRPC, or the gateway HTTP.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn address(&self, part: &str) -> anyhow::Result<SocketAddr> {
        Ok(Kind::find(part)?.address(self.stack.options().instance, 1))
    }

    /// The process of a part.
    ///
    /// # Errors
    /// It does not run.
    pub async fn process(&self, part: &str) -> anyhow::Result<Process> {
        process_of(self.stack, part).await
    }

    /// The user's token for the API.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub fn user_token(&self) -> anyhow::Result<String> {
        let token = std::fs::read_to_string(Tokens::of(self.root()).user)?;
        Ok(token.trim().to_owned())
    }

    /// A token as the gateway makes it for each call of the user to the service of allocations.
    ///
    /// # Errors
    /// Signing failed.
    pub fn internal_token(&self) -> anyhow::Result<String> {
        let projects = [self.project.parse::<Uuid>()?];
        let now = jiff::Timestamp::now().as_second();
        let minted = self
            .minter
            .mint(ALLOCATION, "user:bench", &projects, false, now);
        Ok(minted?)
    }

    /// Channels to the services, opened as the gateway opens them and with its identity.
    ///
    /// # Errors
    /// A certificate cannot be read.
    pub fn peers(&self) -> anyhow::Result<Peers> {
        let own = self.stack.authority().service(GATEWAY, &[])?;
        let authority = self.stack.authority().authority();
        let url = format!("https://{}", self.address(ALLOCATION)?);
        Ok(Peers::new(
            [(ALLOCATION.to_owned(), url)],
            Certificate::from_pem(std::fs::read(authority.certificate)?),
            Identity::from_pem(std::fs::read(own.certificate)?, std::fs::read(own.key)?),
        ))
    }
}
