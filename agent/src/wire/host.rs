//! Brings switch and packet filter to what the reservations say, and tells how they differ from it.
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::filter::TABLE;
use super::{Guest, document_of_linux_bridge, filter, flows, ingress, ports, probe};
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
pub struct Wire {
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
    repairs: Mutex<Repairs>,
    /// What differs before the first time is what a start of the host left, and nobody's doing.
    has_put: AtomicBool,
}

/// What another hand changed since the agent started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repairs {
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

impl Wire {
    /// Over the host that these settings describe.
    pub fn new(settings: &Settings, is_live: bool, journal: Arc<Journal>) -> Self {
        Self {
            network: settings.network.clone(),
            dhcp: Dhcp::new(settings.dhcp.clone()),
            journal,
            owned: Owned::of(&settings.ingress),
            folder: settings.state_dir.join("wire"),
            active: is_live && settings.network.mode == PRIVATE_NAT,
            one_at_a_time: tokio::sync::Mutex::new(()),
            repairs: Mutex::default(),
            has_put: AtomicBool::new(false),
        }
    }

    /// Whether this agent makes rules.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// What another hand changed.
    pub fn repairs(&self) -> Repairs {
        self.repairs
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
            let mut repairs = self.repairs.lock().unwrap_or_else(PoisonError::into_inner);
            repairs.count += 1;
            repairs.last = altered.join(" and ");
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
            BridgeKind::Linux => (document_of_linux_bridge(&self.network, &all), None),
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
mod tests {
    use super::*;
    use crate::played;

    fn journal() -> Arc<Journal> {
        Arc::new(Journal::in_memory().unwrap())
    }

    #[test]
    fn a_change_of_guests_is_no_other_hand() {
        assert!(!Difference::Flows.is_altered() && !Difference::Filter.is_altered());
        assert!(Difference::FlowsAltered.is_altered() && Difference::FilterAltered.is_altered());
    }

    const NAME: &str = "wire::host::tests::p11_a_bridge_with_another_port_gets_no_rules";

    /// With programs in place of the switch's and the packet filter's, which record what they are asked.
    #[tokio::test]
    async fn p11_a_bridge_with_another_port_gets_no_rules() {
        if let Some(folder) = played::folder() {
            return on_a_bridge_with_an_uplink(&folder).await;
        }
        let script = r#"#!/bin/sh
echo "${0##*/} $*" >> "$GPUAAS_TEST_PLAYED/asked"
case "$*" in
  *list-ports*) cat "$GPUAAS_TEST_PLAYED/ports" ;;
  *"list Interface"*) echo '{"data":[["ovsbr0",65534,"internal"],["uplink",1,""]]}' ;;
  *get-fail-mode*) echo standalone ;;
  *diff-flows*) exit 2 ;;
esac
"#;
        played::run_again(NAME, &["ovs-vsctl", "ovs-ofctl", "nft"], script);
    }

    async fn on_a_bridge_with_an_uplink(folder: &Path) {
        let text = format!(
            "state_dir = {folder:?}\n[profile]\nname = \"lab\"\nlab = true\nhypervisor = \"qemu\"\n\
             cpu_model = \"qemu64\"\n[images]\ncache_dir = {folder:?}\n[relay]\nkey_file = {folder:?}\n\
             [dhcp]\nhosts_dir = {hosts:?}\nleases_file = {folder:?}\npid_file = {folder:?}\n",
            hosts = folder.join("hosts"),
        );
        std::fs::create_dir(folder.join("hosts")).unwrap();
        let wire = Wire::new(&toml::from_str(&text).unwrap(), true, journal());
        let requested = || std::fs::read_to_string(folder.join("asked")).unwrap();
        let changes = ["set-fail-mode", "replace-flows", "nft -f"];

        std::fs::write(folder.join("ports"), "uplink\n").unwrap();
        for error in [
            wire.put().await.unwrap_err(),
            wire.check().await.unwrap_err(),
        ] {
            assert!(error.message.contains("not a VM's: uplink"), "{error}");
        }
        assert_eq!(wire.foreign_ports().await.unwrap(), ["uplink"]);
        for change in changes {
            assert!(!requested().contains(change), "{}", requested());
        }
        std::fs::write(folder.join("ports"), "").unwrap();
        wire.put().await.unwrap();
        for change in changes {
            assert!(requested().contains(change), "{}", requested());
        }
        flows_that_were_put_and_not_noted_are_noted(&wire, folder).await;
        a_guest_that_comes_leaves_the_host_ready(&wire, folder).await;
    }

    /// The agent was ended between the switch's answer and its note.
    async fn flows_that_were_put_and_not_noted_are_noted(wire: &Wire, folder: &Path) {
        let has_them = "#!/bin/sh\necho \"ovs-ofctl $*\" >> \"$GPUAAS_TEST_PLAYED/asked\"\n";
        std::fs::write(folder.join("ovs-ofctl"), has_them).unwrap();
        let ovs = std::fs::read_to_string(folder.join("ovs-vsctl")).unwrap();
        let ovs = ovs.replace("echo standalone", "echo secure");
        std::fs::write(folder.join("ovs-vsctl"), ovs).unwrap();
        let put = || {
            let requested = std::fs::read_to_string(folder.join("asked")).unwrap();
            requested.matches("replace-flows").count()
        };
        let note = folder.join("wire").join(FLOWS);
        let (before, flows) = (put(), std::fs::read_to_string(&note).unwrap());
        for lost in [None, Some("table=0, priority=0, actions=NORMAL\n")] {
            match lost {
                Some(other) => std::fs::write(&note, other).unwrap(),
                None => std::fs::remove_file(&note).unwrap(),
            }
            // no other hand changed anything
            assert!(wire.put().await.unwrap().is_empty());
            assert_eq!(std::fs::read_to_string(&note).unwrap(), flows);
        }
        // once each, and never again
        wire.put().await.unwrap();
        assert_eq!(put() - before, 2);
    }

    /// A launch reserves its address a moment before its rules are put; another one asks for its lease just then.
    async fn a_guest_that_comes_leaves_the_host_ready(wire: &Wire, folder: &Path) {
        // from now on the switch has what was put, and only that
        let has = "#!/bin/sh\ncmp -s \"$3\" \"$GPUAAS_TEST_PLAYED/wire/flows\" || exit 2\n";
        std::fs::write(folder.join("ovs-ofctl"), has).unwrap();
        let ovs = std::fs::read_to_string(folder.join("ovs-vsctl")).unwrap();
        let ovs = ovs.replace("echo standalone", "echo secure");
        std::fs::write(folder.join("ovs-vsctl"), &ovs).unwrap();
        assert_eq!(wire.check().await.unwrap(), 0);
        let reservation = "gpuaas-gpuaas-slice-0123456789abcdef0123456789abcdef.conf";
        let reservation = folder.join("hosts").join(reservation);
        std::fs::write(reservation, "52:54:00:10:00:0a,10.100.0.10\n").unwrap();
        assert_eq!(wire.check().await.unwrap(), 1);
        // a switch that refuses the new rules keeps the old ones, and that is told
        std::fs::copy(folder.join("wire/flows"), folder.join("old-flows")).unwrap();
        let refuses = "#!/bin/sh\ncase \"$*\" in\n*diff-flows*) cmp -s \"$3\" \"$GPUAAS_TEST_PLAYED/old-flows\" || exit 2 ;;\n\
                       *) exit 1 ;;\nesac\n";
        std::fs::write(folder.join("ovs-ofctl"), refuses).unwrap();
        let port = r#"["uplink",1,""],["gs456789abcdef",5,""]"#;
        let ovs = ovs.replace(r#"["uplink",1,""]"#, port);
        std::fs::write(folder.join("ovs-vsctl"), ovs).unwrap();
        wire.put().await.unwrap_err();
        let reported = wire.check().await.unwrap_err();
        assert!(
            reported.message.contains("flows are not as they must be"),
            "{reported}"
        );
        // another hand is told as ever
        let other = "#!/bin/sh\nexit 2\n";
        std::fs::write(folder.join("ovs-ofctl"), other).unwrap();
        let reported = wire.check().await.unwrap_err();
        assert!(
            reported.message.contains("flows are not as they must be"),
            "{reported}"
        );
    }

    /// What was never put is not in force.
    #[test]
    fn nothing_put_is_nothing_in_force() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = Wanted {
            flows: Some("new".to_owned()),
            document: "new".to_owned(),
            guests: 1,
        };
        let wire = |folder: &Path| Wire {
            network: Network::default(),
            dhcp: Dhcp::new(
                toml::from_str("hosts_dir = 'a'\nleases_file = 'b'\npid_file = 'c'").unwrap(),
            ),
            journal: journal(),
            owned: None,
            folder: folder.to_owned(),
            active: true,
            one_at_a_time: tokio::sync::Mutex::new(()),
            repairs: Mutex::default(),
            has_put: AtomicBool::new(false),
        };
        let wire = wire(dir.path());
        assert!(wire.last_put(&wanted).is_none());
        std::fs::write(dir.path().join(DOCUMENT), "old").unwrap();
        assert!(wire.last_put(&wanted).is_none(), "the flows were not put");
        std::fs::write(dir.path().join(FLOWS), "old").unwrap();
        let put = wire.last_put(&wanted).unwrap();
        assert_eq!(
            (put.document.as_str(), put.flows.as_deref()),
            ("old", Some("old"))
        );
    }
}
