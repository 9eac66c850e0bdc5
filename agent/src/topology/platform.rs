//! What only NVIDIA's programs tell of a board: the place of each GPU on it, and which GPUs may be used together.
//!
//! A host whose GPUs are passed through has no driver that could be asked. Its bootstrap asks once, before it binds the
//! GPUs to VFIO, and keeps the answers as the programs wrote them; a live answer comes before a kept one.
use std::collections::{BTreeMap, BTreeSet};

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::gpu_fabric::{GpuFabric, MAX_MODULE, Table};
use crate::host::root::HostRoot;
use crate::host::{exec, recording};
use crate::ids::PciAddress;

/// The kept answer of `nvidia-smi -q -x`.
pub const KEPT_GPUS: &str = "/var/lib/gpuaas/nvidia-smi.xml";
/// The kept answer of `fmpm -l`: Fabric Manager's partitions.
pub const KEPT_PARTITIONS: &str = "/var/lib/gpuaas/fabric-partitions.json";

/// A GPU as NVIDIA's driver knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoardGpu {
    /// Place on the baseboard.
    pub module_id: Option<u32>,
    pub serial: String,
    pub uuid: String,
    /// Version of its VBIOS.
    pub firmware: String,
    /// Cluster UUID of the NVLink domain that it joined.
    pub nvlink_domain: String,
    pub nvlink_clique: u32,
}

/// What is known of a board.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Platform {
    /// By address.
    pub gpus: BTreeMap<PciAddress, BoardGpu>,
    /// Fabric Manager's partitions as sets of module ids.
    pub partitions: Vec<BTreeSet<u32>>,
    /// Where the partitions are from; empty: nothing tells them.
    pub source: String,
    /// What was there and could not be read.
    pub unreadable: Vec<String>,
}

impl Platform {
    /// Asks the programs, then reads what the bootstrap kept. A Fabric Manager that the host uses is asked alone: what it
    /// offered once is no group that a VM could get now.
    pub async fn read(root: &HostRoot, fabric: Option<&GpuFabric>) -> Self {
        let mut known = Self::kept(root);
        let asks = root.is_live() || recording::is_replay();
        if let Some(text) = answer(asks, "nvidia-smi", &["-q", "-x"]).await {
            known.take_gpus(&text, "nvidia-smi");
        }
        match fabric.filter(|_| asks) {
            Some(fabric) => match fabric.table().await {
                Ok(table) => known.take_table(table, "Fabric Manager"),
                Err(error) => known.unreadable.push(error.to_string()),
            },
            None => known.read_partitions(root, asks).await,
        }
        known
    }

    /// What the bootstrap kept of the GPUs; no program is asked (INC-37).
    pub fn kept(root: &HostRoot) -> Self {
        let mut known = Self::default();
        if let Some(text) = kept(root, KEPT_GPUS, &mut known.unreadable) {
            known.take_gpus(&text, KEPT_GPUS);
        }
        known
    }

    async fn read_partitions(&mut self, root: &HostRoot, asks: bool) {
        let live = answer(asks, "fmpm", &["-l"]).await;
        let from = match live {
            Some(text) => Some((text, "fmpm -l")),
            None => {
                let text = kept(root, KEPT_PARTITIONS, &mut self.unreadable);
                text.map(|text| (text, KEPT_PARTITIONS))
            }
        };
        if let Some((text, source)) = from {
            match Table::parse(&text) {
                Ok(table) => self.take_table(table, source),
                Err(why) => self.unreadable.push(format!("{source}: {why}")),
            }
        }
    }

    fn take_table(&mut self, table: Table, source: &str) {
        let sets = table.partitions.into_iter().map(|one| one.modules);
        self.partitions = sets.collect();
        self.source = source.to_owned();
    }

    fn take_gpus(&mut self, text: &str, source: &str) {
        match gpus(text) {
            Ok(found) => self.gpus.extend(found),
            Err(why) => self.unreadable.push(format!("{source}: {why}")),
        }
    }

    /// Place of a GPU on its board.
    pub fn module_id(&self, address: &PciAddress) -> Option<u32> {
        self.gpus.get(address)?.module_id
    }

    /// The legal groups of these GPUs: Fabric Manager's partitions of more than one GPU, by module id and in order.
    ///
    /// # Errors
    /// Why there are none. A part of the truth would be worse than none: a host that reports groups is offered in these
    /// sizes alone.
    pub fn legal_groups(&self, gpus: &[PciAddress]) -> Result<Vec<Vec<u32>>, String> {
        if self.source.is_empty() {
            return Err(format!(
                "neither fmpm nor {KEPT_PARTITIONS} tells Fabric Manager's partitions"
            ));
        }
        let mut modules = BTreeSet::new();
        for address in gpus {
            let Some(module) = self.module_id(address) else {
                return Err(format!(
                    "the module id of GPU {address} is not known: neither nvidia-smi nor {KEPT_GPUS} tells it"
                ));
            };
            if !modules.insert(module) {
                return Err(format!("two GPUs have the module id {module}"));
            }
        }
        let mut groups: Vec<Vec<u32>> = self
            .partitions
            .iter()
            .filter(|group| group.len() > 1 && group.is_subset(&modules))
            .map(|group| group.iter().copied().collect())
            .collect();
        groups.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
        groups.dedup();
        match groups.is_empty() {
            true => Err(format!("{} names no partition of these GPUs", self.source)),
            false => Ok(groups),
        }
    }
}

/// A tree without the answers of programs is asked nothing: this machine's programs would tell of this machine.
async fn answer(asks: bool, program: &str, arguments: &[&str]) -> Option<String> {
    if !asks {
        return None;
    }
    let output = exec::run(program, arguments, exec::PROBE_LIMIT)
        .await
        .ok()?;
    (output.status == 0 && !output.stdout.trim().is_empty()).then_some(output.stdout)
}

fn kept(root: &HostRoot, path: &str, unreadable: &mut Vec<String>) -> Option<String> {
    match root.value(path) {
        Ok(text) => text,
        Err(error) => {
            unreadable.push(format!("{path}: {error}"));
            None
        }
    }
}

/// Reads the GPUs of `nvidia-smi -q -x`, by address.
///
/// # Errors
/// It is not well-formed.
pub fn gpus(xml: &str) -> Result<BTreeMap<PciAddress, BoardGpu>, String> {
    let mut reader = Reader::from_str(xml);
    let mut found = BTreeMap::new();
    let mut path: Vec<String> = Vec::new();
    let mut current: Option<(PciAddress, BoardGpu)> = None;
    let mut text = String::new();
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(start) => {
                let name = String::from_utf8_lossy(start.name().as_ref()).into_owned();
                if path.len() == 1 && name == "gpu" {
                    let id = start
                        .attributes()
                        .flatten()
                        .find(|one| one.key.as_ref() == b"id");
                    let id = id.map(|id| String::from_utf8_lossy(&id.value).into_owned());
                    current = id
                        .and_then(|id| bus_id(&id))
                        .map(|id| (id, BoardGpu::default()));
                }
                path.push(name);
                text.clear();
            }
            Event::Text(piece) => text.push_str(&piece.decode().map_err(|e| e.to_string())?),
            Event::End(_) => {
                if let Some((_, gpu)) = &mut current {
                    let below: Vec<&str> = path.iter().skip(2).map(String::as_str).collect();
                    set(gpu, &below, text.trim());
                }
                if path.len() == 2
                    && let Some((address, gpu)) = current.take()
                {
                    found.insert(address, gpu);
                }
                path.pop();
                text.clear();
            }
            Event::Eof if path.is_empty() => return Ok(found),
            Event::Eof => return Err("it ends in the middle".to_owned()),
            _ => {}
        }
    }
}

fn set(gpu: &mut BoardGpu, path: &[&str], text: &str) {
    if text == "N/A" || text.is_empty() {
        return;
    }
    match path {
        ["module_id"] => gpu.module_id = text.parse().ok().filter(|id| *id <= MAX_MODULE),
        ["serial"] => gpu.serial = text.to_owned(),
        ["uuid"] => gpu.uuid = text.to_owned(),
        ["vbios_version"] => gpu.firmware = text.to_owned(),
        // all zeros: the GPU has joined none
        ["fabric", "clusterUuid" | "cluster_uuid"]
            if text.bytes().any(|byte| byte != b'0' && byte != b'-') =>
        {
            gpu.nvlink_domain = text.to_owned();
        }
        ["fabric", "cliqueId" | "clique_id"] => gpu.nvlink_clique = text.parse().unwrap_or(0),
        _ => {}
    }
}

/// NVIDIA writes the domain with eight digits: "00000000:1B:00.0".
fn bus_id(text: &str) -> Option<PciAddress> {
    let (domain, rest) = text.split_once(':')?;
    let domain = u32::from_str_radix(domain, 16).ok()?;
    format!("{domain:04x}:{}", rest.to_ascii_lowercase())
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(bus: u8) -> PciAddress {
        format!("0000:{bus:02x}:00.0").parse().unwrap()
    }

    fn known(modules: &[(u8, u32)], partitions: &[&[u32]]) -> Platform {
        let gpu = |(bus, module): &(u8, u32)| {
            let gpu = BoardGpu {
                module_id: Some(*module),
                ..BoardGpu::default()
            };
            (address(*bus), gpu)
        };
        Platform {
            gpus: modules.iter().map(gpu).collect(),
            partitions: partitions
                .iter()
                .map(|one| one.iter().copied().collect())
                .collect(),
            source: "fmpm -l".into(),
            unreadable: Vec::new(),
        }
    }

    #[test]
    fn b_43_partitions_are_legal_groups_only_with_every_module_id() {
        let gpus: Vec<PciAddress> = (1..=4).map(address).collect();
        let modules = [(1, 3), (2, 1), (3, 4), (4, 2)];
        let table: [&[u32]; 5] = [&[1, 2, 3, 4], &[3, 4], &[2, 1], &[1], &[1, 2, 7]];
        let board = known(&modules, &table);
        let expected = [vec![1, 2], vec![3, 4], vec![1, 2, 3, 4]];
        assert_eq!(board.legal_groups(&gpus).unwrap(), expected);

        let lacking = known(&modules[..3], &table).legal_groups(&gpus);
        assert!(lacking.unwrap_err().contains("0000:04:00.0"));
        let twice = known(&[(1, 1), (2, 1), (3, 2), (4, 3)], &table).legal_groups(&gpus);
        assert!(twice.unwrap_err().contains("two GPUs"));
        let other = known(&modules, &[&[5, 6]]).legal_groups(&gpus);
        assert!(other.unwrap_err().contains("no partition"));
        assert!(Platform::default().legal_groups(&gpus).is_err());
    }

    #[test]
    fn the_answers_of_nvidias_programs_are_read() {
        let xml = "<?xml version=\"1.0\" ?><!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">
            <nvidia_smi_log><driver_version>570</driver_version>
            <gpu id=\"00000000:1B:00.0\"><product_name>NVIDIA H200</product_name><serial>165</serial>
              <uuid>GPU-1</uuid><vbios_version>96.00</vbios_version><module_id>4</module_id>
              <fabric><state>Completed</state><cliqueId>7</cliqueId><clusterUuid>0a-1</clusterUuid></fabric>
              <pci><module_id>99</module_id></pci></gpu>
            <gpu id=\"00000000:43:00.0\"><module_id>N/A</module_id>
              <fabric><clusterUuid>00000000-0000</clusterUuid></fabric></gpu></nvidia_smi_log>";
        let found = gpus(xml).unwrap();
        let first = &found[&address(0x1b)];
        assert_eq!((first.module_id, first.serial.as_str()), (Some(4), "165"));
        assert_eq!(
            (first.nvlink_domain.as_str(), first.nvlink_clique),
            ("0a-1", 7)
        );
        let second = &found[&address(0x43)];
        assert_eq!(
            (second.module_id, second.nvlink_domain.as_str()),
            (None, "")
        );
        assert!(gpus("<nvidia_smi_log><gpu id=\"1\">").is_err());
        assert!(gpus("<a></b>").is_err());
        assert!(gpus("").unwrap().is_empty());
    }
}
