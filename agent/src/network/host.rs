//! Brings switch and packet filter to what the reservations say, and tells how they differ from it.
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::filter::TABLE;
use super::guest::Guest;
use super::{bridge, filter, flows, ingress, ports, probe};
use crate::dhcp::Dhcp;
use crate::error::{HostError, HostResult, io_error};
use crate::host::{blocking, exec};
use crate::ingress::Owned;
use crate::journal::Journal;
use crate::settings::{BridgeKind, Network, PRIVATE_NAT, Settings};

const LIMIT: Duration = Duration::from_secs(15);
/// What `ovs-ofctl diff-flows` ends with when there is a difference.
const DIFFERS: i32 = 2;

/// The rules of one host.
pub struct NetworkRules {
    network: Network,
    dhcp: Dhcp,
    /// It has the ingress mappings.
    journal: Arc<Journal>,
    /// What of ingress the platform may open here; none: nothing.
    owned: Option<Owned>,
    /// What was put last, as it was written and as nft lists it.
    folder: PathBuf,
    /// A recorded host, or one whose network the site makes, has no rules of ours.
    active: bool,
    one_at_a_time: tokio::sync::Mutex<()>,
    alterations: Mutex<Alterations>,
    /// What differs before the first time is what a start of the host left, and nobody's doing.
    has_put: AtomicBool,
}

/// What another hand changed since the agent started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Alterations {
    /// How often rules were put back.
    pub count: u64,
    /// What was not as it must be, at last.
    pub last: String,
}

/// What must be in force.
struct Wanted {
    /// Of Open vSwitch; none for a Linux bridge, whose rules are in the document.
    flows: Option<String>,
    document: String,
    guests: usize,
}

/// How the host differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    /// Rules that this agent has not put yet: guests came or went.
    Filter,
    /// The packet filter is not as it was left.
    FilterAltered,
    Flows,
    FlowsAltered,
    /// The switch would pass everything after its restart.
    FailMode,
}

impl Difference {
    fn what(self) -> &'static str {
        match self {
            Self::Filter | Self::FilterAltered => "the packet filter's rules are",
            Self::Flows | Self::FlowsAltered => "the switch's flows are",
            Self::FailMode => "the switch's fail mode is",
        }
    }

    /// Whether another hand changed what this agent had put.
    fn is_altered(self) -> bool {
        matches!(
            self,
            Self::FilterAltered | Self::FlowsAltered | Self::FailMode
        )
    }
}

impl NetworkRules {
    /// Over the host that these settings describe.
    pub fn new(settings: &Settings, is_live: bool, journal: Arc<Journal>) -> Self {
        Self {
            network: settings.network.clone(),
            dhcp: Dhcp::new(settings.dhcp.clone()),
            journal,
            owned: Owned::of(&settings.ingress),
            // earlier agents named it so, and what they put is found there
            folder: settings.state_dir.join("wire"),
            active: is_live && settings.network.mode == PRIVATE_NAT,
            one_at_a_time: tokio::sync::Mutex::new(()),
            alterations: Mutex::default(),
            has_put: AtomicBool::new(false),
        }
    }

    /// Whether this agent makes rules.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// What another hand changed.
    pub fn alterations(&self) -> Alterations {
        self.alterations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Puts the rules in force, and tells what was in force before and had been changed by another hand. Nothing is
    /// written where nothing differs.
    ///
    /// # Errors
    /// The switch or the packet filter refuses, or does not answer. The bridge has [`Self::foreign_ports`]: then
    /// nothing is written, since the host may be reached through one of them.
    pub async fn put(&self) -> HostResult<Vec<&'static str>> {
        if !self.active {
            return Ok(Vec::new());
        }
        let _alone = self.one_at_a_time.lock().await;
        let wanted = self.wanted().await?;
        let differences = self.differences(&wanted).await?;
        for difference in &differences {
            match difference {
                Difference::Filter | Difference::FilterAltered => self.put_filter(&wanted).await?,
                Difference::Flows | Difference::FlowsAltered => self.put_flows(&wanted).await?,
                Difference::FailMode => {
                    ovs_vsctl(&["set-fail-mode", &self.network.bridge, "secure"]).await?;
                }
            }
        }
        if !self.has_put.swap(true, Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let altered: Vec<_> = differences
            .into_iter()
            .filter(|one| one.is_altered())
            .map(Difference::what)
            .collect();
        if !altered.is_empty() {
            let mut alterations = self
                .alterations
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            alterations.count += 1;
            alterations.last = altered.join(" and ");
        }
        Ok(altered)
    }

    /// How many guests the rules are of, when what was put last is in force; otherwise what is not. A guest that just
    /// comes or goes makes no difference: it reaches nothing before its rules are put, and its VM starts after that.
    ///
    /// # Errors
    /// The switch or the packet filter does not answer, or is not as it must be.
    pub async fn check(&self) -> HostResult<usize> {
        let _alone = self.one_at_a_time.lock().await;
        let wanted = self.wanted().await?;
        let in_force = self.last_put(&wanted).unwrap_or(wanted);
        let differences = self.differences(&in_force).await?;
        if differences.is_empty() {
            return Ok(in_force.guests);
        }
        let what: Vec<_> = differences.iter().map(|one| one.what()).collect();
        Err(HostError::host(
            ErrorReason::HostNotReady,
            format!("{} not as they must be", what.join(" and ")),
        ))
    }

    /// The bridge's ports that are neither a guest's nor the host's own; none where no flows are made.
    ///
    /// # Errors
    /// The switch does not answer.
    pub async fn foreign_ports(&self) -> HostResult<Vec<String>> {
        if !self.active || self.network.bridge_kind != BridgeKind::Ovs {
            return Ok(Vec::new());
        }
        Ok(self.ports().await?.1)
    }

    /// Names of the ports of guests on the bridge; none where this agent makes no rules.
    ///
    /// # Errors
    /// The switch does not answer, or the bridge cannot be read.
    pub async fn guest_ports(&self) -> HostResult<Vec<String>> {
        if !self.active {
            return Ok(Vec::new());
        }
        let listed = match self.network.bridge_kind {
            BridgeKind::Ovs => ovs_vsctl(&["list-ports", &self.network.bridge]).await?,
            BridgeKind::Linux => {
                let folder = format!("/sys/class/net/{}/brif", self.network.bridge);
                let read = blocking::here(|| -> std::io::Result<Vec<String>> {
                    let entries = std::fs::read_dir(&folder)?;
                    entries
                        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                        .collect()
                });
                let failed = io_error(format!("cannot read {folder}"));
                read.map_err(failed)?.join("\n")
            }
        };
        Ok(ports::of_guests(&listed))
    }

    /// The guest that is none, from whose port packets are sent; none where this agent makes no rules.
    ///
    /// # Errors
    /// The reservations cannot be read.
    pub fn probe(&self) -> HostResult<Option<Guest>> {
        if !self.active {
            return Ok(None);
        }
        let reservations = self.dhcp.reservations()?;
        let guests: Vec<Guest> = reservations.iter().filter_map(Guest::of).collect();
        Ok(probe::guest(&self.network, &guests))
    }

    /// The interfaces of the switch, and the bridge's ports that are foreign.
    async fn ports(&self) -> HostResult<(Vec<ports::Interface>, Vec<String>)> {
        let list = ["--format=json", ports::COLUMNS, "list", "Interface"];
        let interfaces = ports::parse(&ovs_vsctl(&list).await?)?;
        let ports = ovs_vsctl(&["list-ports", &self.network.bridge]).await?;
        let foreign = ports::foreign(&ports, &interfaces);
        Ok((interfaces, foreign))
    }

    async fn wanted(&self) -> HostResult<Wanted> {
        let reservations = self.dhcp.reservations()?;
        let guests: Vec<Guest> = reservations.iter().filter_map(Guest::of).collect();
        let probe = probe::guest(&self.network, &guests);
        let mut all = guests.clone();
        all.extend(probe.clone());
        let (mut document, flows) = match self.network.bridge_kind {
            BridgeKind::Ovs => {
                let (interfaces, foreign) = self.ports().await?;
                ports::refuse(&self.network.bridge, &foreign)?;
                let at_port = |guest: &Guest| {
                    Some((ports::number_of(&interfaces, &guest.port)?, guest.clone()))
                };
                let at_probe = probe
                    .clone()
                    .filter(|_| !ports::is_anothers(&interfaces, probe::PORT, probe::PORT_NUMBER))
                    .map(|probe| (probe::PORT_NUMBER, probe));
                let guests: Vec<_> = guests.iter().filter_map(at_port).chain(at_probe).collect();
                let document = filter::document(&self.network, &all);
                (document, Some(flows::flows(&guests)))
            }
            BridgeKind::Linux => (bridge::whole_document(&self.network, &all), None),
        };
        if let Some(probe) = &probe {
            document.push_str(&probe::document(&self.network, probe));
        }
        let openings = match self.owned {
            Some(owned) => {
                let now = jiff::Timestamp::now();
                ingress::openings(owned, &self.journal.ingress()?, &reservations, now)
            }
            None => Vec::new(),
        };
        document.push_str(&ingress::document(&self.network, self.owned, &openings));
        Ok(Wanted {
            flows,
            document,
            guests: guests.len(),
        })
    }

    /// What this agent, or the one before it, put last; none where it never put all of it.
    fn last_put(&self, wanted: &Wanted) -> Option<Wanted> {
        let read = |name: &str| std::fs::read_to_string(self.folder.join(name)).ok();
        Some(Wanted {
            flows: match &wanted.flows {
                Some(_) => Some(read(FLOWS)?),
                None => None,
            },
            document: read(DOCUMENT)?,
            guests: wanted.guests,
        })
    }

    async fn differences(&self, wanted: &Wanted) -> HostResult<Vec<Difference>> {
        let mut found = Vec::new();
        let put = |name: &str| std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        if put(DOCUMENT) != wanted.document {
            found.push(Difference::Filter);
        } else if self.listed().await? != put(LISTING) {
            found.push(Difference::FilterAltered);
        }
        let Some(flows) = &wanted.flows else {
            return Ok(found);
        };
        let bridge = self.network.bridge.as_str();
        if ovs_vsctl(&["get-fail-mode", bridge]).await?.trim() != "secure" {
            found.push(Difference::FailMode);
        }
        let as_put = put(FLOWS) == *flows;
        let file = self.write(NEW_FLOWS, flows)?;
        let arguments = ["diff-flows".as_ref(), bridge.as_ref(), file.as_os_str()];
        let output = exec::run("ovs-ofctl", &arguments, LIMIT).await?;
        if output.status == DIFFERS {
            found.push(if as_put {
                Difference::FlowsAltered
            } else {
                Difference::Flows
            });
        } else {
            output.success("ovs-ofctl")?;
            // the switch has them, and nothing says that they were put: their agent was ended in between. The same flows
            // replace themselves without any guest noticing
            if !as_put {
                found.push(Difference::Flows);
            }
        }
        Ok(found)
    }

    async fn put_filter(&self, wanted: &Wanted) -> HostResult<()> {
        // what stands here was put: until it is again, nothing was
        let _absent_is_fine = blocking::here(|| std::fs::remove_file(self.folder.join(DOCUMENT)));
        let file = self.write(NEW_DOCUMENT, &wanted.document)?;
        let arguments = ["-f".as_ref(), file.as_os_str()];
        exec::run("nft", &arguments, LIMIT).await?.success("nft")?;
        self.write(LISTING, &self.listed().await?)?;
        self.place(&file, DOCUMENT)
    }

    async fn put_flows(&self, wanted: &Wanted) -> HostResult<()> {
        // as of the filter
        let _absent_is_fine = blocking::here(|| std::fs::remove_file(self.folder.join(FLOWS)));
        let file = self.write(NEW_FLOWS, wanted.flows.as_deref().unwrap_or_default())?;
        let bridge = self.network.bridge.as_str();
        let arguments = [
            "--bundle".as_ref(),
            "replace-flows".as_ref(),
            bridge.as_ref(),
            file.as_os_str(),
        ];
        exec::run("ovs-ofctl", &arguments, LIMIT)
            .await?
            .success("ovs-ofctl")?;
        self.place(&file, FLOWS)
    }

    /// Our tables as nft lists them, without counters; a table that is not there is empty.
    async fn listed(&self) -> HostResult<String> {
        let families: &[&str] = match self.network.bridge_kind {
            BridgeKind::Ovs => &["inet", "arp"],
            BridgeKind::Linux => &["inet", "arp", "bridge"],
        };
        let mut text = String::new();
        for family in families {
            let arguments = ["--stateless", "list", "table", family, TABLE];
            let output = exec::run("nft", &arguments, LIMIT).await?;
            text.push_str(&output.stdout);
        }
        Ok(text)
    }

    fn write(&self, name: &str, text: &str) -> HostResult<PathBuf> {
        let failed = || io_error("cannot write the rules of the guests' network");
        let file = self.folder.join(name);
        blocking::here(|| {
            std::fs::create_dir_all(&self.folder).map_err(failed())?;
            std::fs::write(&file, text).map_err(failed())
        })?;
        Ok(file)
    }

    fn place(&self, from: &Path, name: &str) -> HostResult<()> {
        blocking::here(|| std::fs::rename(from, self.folder.join(name)))
            .map_err(io_error("cannot place the rules of the guests' network"))
    }
}

/// Asks the switch, or changes it.
pub async fn ovs_vsctl(arguments: &[&str]) -> HostResult<String> {
    let all = [&["--timeout=10"], arguments].concat();
    let output = exec::run("ovs-vsctl", &all, LIMIT).await?;
    Ok(output.success("ovs-vsctl")?.stdout)
}

/// Files of what was put, and of what is about to be.
const DOCUMENT: &str = "filter.nft";
const LISTING: &str = "filter.listed";
const FLOWS: &str = "flows";
const NEW_DOCUMENT: &str = "filter.nft.new";
const NEW_FLOWS: &str = "flows.new";

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
