//! Every parser of what a host's programs and files, its guests and the network say, against texts that no program would write: none panics. It is
//! fuzzing without a tool of its own: samples of good texts are cut, doubled, spliced and strewn with odd values.
//!
//! `GPUAAS_BAD_INPUTS` is the number of texts per parser (default 3,000; `make test-chaos` takes more), and
//! `GPUAAS_BAD_INPUT_SEED` repeats a run.
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::dhcp;
use crate::disk::{identity, mounts, nvme, signatures};
use crate::gpu_fabric::Table;
use crate::guest::{command, login};
use crate::host::recording::Recording;
use crate::host::{secrets, units};
use crate::image::{clone, registry};
use crate::network::{ports, probe};
use crate::parity::line;
use crate::prepare::{storage, systemd};
use crate::telemetry::report;
use crate::topology::packet::frames;
use crate::topology::{disk_details, in_use, machine, nat, neighbors, network, pci, platform};
use crate::update::files;
use crate::vm::disk_sources;

const DEFAULT_COUNT: u64 = 3000;

/// A parser, under a name, with samples of what it reads.
struct Target {
    name: &'static str,
    parse: fn(&str),
    samples: &'static [&'static str],
}

/// What it gives is of no matter, only that it gives something.
fn ignore<T>(_parsed: T) {}

const NFT: &str = r#"{"nftables":[{"chain":{"family":"ip","table":"nat","name":"POSTROUTING","type":"nat","hook":"postrouting"}},
    {"rule":{"family":"ip","table":"nat","chain":"POSTROUTING","expr":[{"match":{"op":"==","left":{"payload":
    {"protocol":"ip","field":"saddr"}},"right":{"prefix":{"addr":"10.100.0.0","len":24}}}},{"masquerade":null}]}},
    {"rule":{"family":"ip","table":"nat","chain":"POSTROUTING","expr":[{"jump":{"target":"POSTROUTING"}}]}}]}"#;
const LINKS: &str = r#"[{"ifname":"eno1","addr_info":[{"family":"inet","local":"10.4.0.7","prefixlen":22,"scope":"global"}]}]"#;

/// Options of a DHCPOFFER, in hex: what comes is bytes.
const OFFER_OPTIONS: &str = "63825363360400000000350102ff";

const TARGETS: [Target; 36] = [
    Target {
        name: "nft",
        parse: |text| ignore(nat::nft_masquerades(text, "10.100.0.0/24")),
        samples: &[NFT],
    },
    Target {
        name: "iptables-save",
        parse: |text| ignore(nat::iptables_masquerades(text, "10.100.0.0/24")),
        samples: &["*nat\n-A POSTROUTING ! -o lo -s 10.100.0.0/24 -j MASQUERADE\nCOMMIT\n"],
    },
    Target {
        name: "losetup",
        parse: |text| ignore(identity::parse_loops(text)),
        samples: &[
            r#"{"loopdevices":[{"name":"/dev/loop0","back-ino":7,"back-maj:min":"  254:0  "}]}"#,
        ],
    },
    Target {
        name: "wipefs",
        parse: |text| ignore(signatures::parse_wipefs(text)),
        samples: &[
            r#"{"signatures":[{"device":"loop0","offset":"0x200","type":"gpt","uuid":null}]}"#,
        ],
    },
    Target {
        name: "blkid",
        parse: |text| ignore(signatures::parse_blkid(0, text)),
        samples: &["DEVNAME=/dev/loop0\nPTUUID=748f\nPTTYPE=gpt\nTYPE=ext4\n"],
    },
    Target {
        name: "mountinfo",
        parse: |text| ignore(mounts::parse(text)),
        samples: &["36 35 259:3 / /share\\0402 rw,noatime master:1 - ext4 /dev/nvme0n1p2 rw\n"],
    },
    Target {
        name: "nvme list-ns",
        parse: |text| ignore(nvme::parse_namespaces(text)),
        samples: &[r#"{"nsid_list":[{"nsid":1},{"nsid":7}]}"#],
    },
    Target {
        name: "nvme sanitize-log",
        parse: |text| ignore(nvme::parse_sanitize_log(text)),
        samples: &[
            r#"{"nvme0n1":{"sprog":65535,"sstat":{"global_erased":1,"status":"(1) Completed"}}}"#,
        ],
    },
    Target {
        name: "nvme smart-log",
        parse: |text| {
            if let Some(health) = disk_details::parse_health(text) {
                disk_details::health_faults(&health);
            }
        },
        samples: &[
            r#"{"critical_warning":0,"temperature":311,"avail_spare":100,"spare_thresh":10,"percent_used":3,
            "media_errors":0,"num_err_log_entries":4,"power_on_hours":9000}"#,
            r#"{"critical_warning":{"value":4,"media":1},"avail_spare":9,"spare_thresh":10,"percentage_used":255}"#,
        ],
    },
    Target {
        name: "Open vSwitch's interfaces",
        parse: |text| {
            if let Ok(all) = ports::parse(text) {
                ports::number_of(&all, "gs0123456789aa");
                ports::foreign(text, &all);
            }
        },
        samples: &[
            r#"{"data":[["ovsbr0",65534,"internal"],["gs0123456789aa",["set",[]],""]],"headings":["name"]}"#,
        ],
    },
    Target {
        name: "domain description",
        parse: |text| ignore(disk_sources::sources(text)),
        samples: &[
            "<domain><devices><disk type='block'><source dev='/dev/loop3' index='1'/><backingStore>\
             <source file='/b&amp;c.img'/></backingStore></disk><hostdev mode='subsystem' type='pci'><source>\
             <address domain='0x0000' bus='0xaf' slot='0x00' function='0x1'/></source></hostdev></devices></domain>",
        ],
    },
    Target {
        name: "addresses of a bridge",
        parse: |text| ignore(network::parse_addresses(text)),
        samples: &[LINKS],
    },
    Target {
        name: "network of a gateway",
        parse: |text| ignore(network::subnet(text)),
        samples: &["10.100.0.1/24"],
    },
    Target {
        name: "addresses of a host",
        parse: |text| {
            ignore(neighbors::parse_addresses(
                text,
                text,
                "ovsbr0",
                &BTreeSet::new(),
            ));
        },
        samples: &[LINKS, r#"[{"dst":"default","dev":"eno1"}]"#],
    },
    Target {
        name: "ipmitool lan print",
        parse: |text| ignore(neighbors::parse_bmc(text)),
        samples: &[
            "IP Address              : 10.177.3.241\nSubnet Mask             : 255.255.252.0\n",
        ],
    },
    Target {
        name: "lldpcli",
        parse: |text| ignore(neighbors::parse_neighbors(text)),
        samples: &[
            r#"{"lldp":[{"interface":[{"name":"eno1","chassis":[{"id":[{"type":"mac","value":"ec:0d"}],
            "name":[{"value":"leaf-7"}]}],"port":[{"id":[{"value":"swp12"}],"descr":[{"value":"gpu"}]}]}]}]}"#,
        ],
    },
    Target {
        name: "fmpm",
        parse: |text| ignore(Table::parse(text)),
        samples: &[
            r#"{"numPartitions":1,"partitionInfo":[{"partitionId":0,"isActive":1,"numGpus":2,
            "gpuInfo":[{"physicalId":2},{"physicalId":1}]}]}"#,
        ],
    },
    Target {
        name: "nvidia-smi",
        parse: |text| ignore(platform::gpus(text)),
        samples: &[
            "<?xml version=\"1.0\" ?><nvidia_smi_log><gpu id=\"00000000:1B:00.0\"><serial>165</serial>\
             <module_id>4</module_id><fabric><cliqueId>7</cliqueId></fabric></gpu></nvidia_smi_log>",
        ],
    },
    Target {
        name: "BARs",
        parse: |text| ignore(pci::bars(text)),
        samples: &["0x000021c042000000 0x000021c042ffffff 0x000000000014220c\n0x0 0x0 0x0\n"],
    },
    Target {
        name: "vital product data",
        parse: |text| ignore(pci::vital_product_data(text.as_bytes())),
        samples: &["\u{2}\u{4}\u{0}ConX", "x\u{0}SN\u{4}MT23"],
    },
    Target {
        name: "processors",
        parse: |text| {
            machine::sockets(text);
            machine::processor_serials(text);
        },
        samples: &[
            "processor\t: 0\nphysical id\t: 1\ncpu cores\t: 64\nflags\t: fpu vmx\n\nprocessor\t: 1\n",
            "\tSerial Number: 7A\n",
        ],
    },
    Target {
        name: "state of a unit",
        parse: |text| ignore(units::parse(text)),
        samples: &["LoadState=loaded\nActiveState=active\nSubState=running\n"],
    },
    Target {
        name: "recording",
        parse: |text| {
            secrets::without_secrets(text);
            ignore(Recording::parse(text));
        },
        samples: &[
            r#"{"schema":1,"agent_version":"0","settings":{},"entries":{"/a/b":{"link":"../c"},"/d":{"text":"x"}},
            "answers":{"ip":{"ended":{"status":0,"stdout":"","stderr":""}}}}"#,
        ],
    },
    Target {
        name: "leases of dnsmasq",
        parse: |text| {
            for mac in ["52:54:00:10:00:0a", "02:00:00:00:00:01"] {
                let mac = mac.parse().expect("an address");
                ignore(dhcp::parse_lease(text, &mac));
            }
        },
        samples: &["1769860800 52:54:00:10:00:0a 10.100.0.10 train 01:52:54:00:10:00:0a\n"],
    },
    Target {
        name: "reservation of dnsmasq",
        parse: |text| {
            let vm = "gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab";
            ignore(dhcp::parse_reservation(vm.parse().expect("a name"), text));
        },
        samples: &["52:54:00:10:00:0a,10.100.0.10\n"],
    },
    Target {
        name: "DHCP offer",
        parse: |text| {
            let request = [1, 2, 3, 4];
            ignore(frames::offer(&offer_with(&of_hex(text)), request));
            ignore(frames::offer(text.as_bytes(), request));
        },
        samples: &[OFFER_OPTIONS],
    },
    Target {
        name: "counters of the probe",
        parse: |text| ignore(probe::Counted::parse(text)),
        samples: &[
            r#"{"nftables":[{"rule":{"comment":"as sent","expr":[{"counter":{"packets":1,"bytes":9}}]}},
            {"rule":{"comment":"masqueraded","expr":[{"counter":{"packets":2,"bytes":9}}]}}]}"#,
        ],
    },
    Target {
        name: "what a guest measures",
        parse: |text| {
            ignore(report::parse(&command::Answer {
                exit_status: Some(0),
                output: text.as_bytes().to_vec(),
                cut: false,
            }));
        },
        samples: &[
            "MemTotal:       65841036 kB\nMemAvailable:   61234568 kB\n",
            "MemTotal: 8 kB\nMemAvailable: 4 kB\n0, 17, 1024, 143771, 41, 120.5\n",
        ],
    },
    Target {
        name: "boot id of a guest",
        parse: |text| ignore(login::boot_id(text.as_bytes(), "nonce")),
        samples: &["nonce 6f2f1a52-1111-4222-8333-444455556666\n"],
    },
    Target {
        name: "nvme id-ctrl",
        parse: |text| ignore(nvme::parse_controller(text)),
        samples: &[r#"{"sanicap":3,"fna":4,"oacs":2,"oncs":8,"cntlid":1,"nn":32}"#],
    },
    Target {
        name: "progress of a clone",
        parse: |text| ignore(clone::parse_percent(text.as_bytes())),
        samples: &["    (37.04/100%)"],
    },
    Target {
        name: "source of an image",
        parse: |text| ignore(registry::parse_source(text)),
        samples: &[
            "oci://registry.example.com:5000/gpu/ubuntu@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ],
    },
    Target {
        name: "interfaces of the host",
        parse: |text| ignore(in_use::of_interfaces(text, "10.4.0.1/22")),
        samples: &[LINKS],
    },
    Target {
        name: "unit of a preparation",
        parse: |text| ignore(systemd::parse(text)),
        samples: &[
            "LoadState=loaded\nActiveState=active\nUnitFileState=enabled\nNeedDaemonReload=no\n",
        ],
    },
    Target {
        name: "storage profile",
        parse: |text| ignore(storage::Profile::parse(text)),
        samples: &[
            "approved_by = \"alice\"\ndevices = [\"/dev/disk/by-id/nvme-eui.01\"]\nunmount = [\"/share3\"]\n",
        ],
    },
    Target {
        name: "parity line, and files of an update",
        parse: |text| {
            ignore(line::Line::parse(text));
            ignore(files::given(text));
            ignore(files::outcome(text));
        },
        samples: &[
            "GPUAAS_SLICE_PARITY status=FAIL check=nat detail=no\\ rule remediation=add\\ it\n",
            "version=1.2.3\nrollout=7\nstate=failed\nmessage=x\n",
        ],
    },
];

/// A DHCP message with these options: a reply that offers 10.100.0.254.
fn offer_with(options: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 236];
    message[..8].copy_from_slice(&[2, 1, 6, 0, 1, 2, 3, 4]);
    message[16..20].copy_from_slice(&[10, 100, 0, 254]);
    message.extend(options);
    message
}

/// The bytes of a hex text as far as it is one, and of what is none its own.
fn of_hex(text: &str) -> Vec<u8> {
    let even = text.len() & !1;
    let decoded = text.get(..even).and_then(|digits| hex::decode(digits).ok());
    decoded.unwrap_or_else(|| text.as_bytes().to_vec())
}

/// What a good text has nowhere.
const ODD: [&str; 24] = [
    "",
    "\0",
    "\u{feff}",
    "\u{1f980}",
    "ß",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "null",
    "true",
    "-1",
    "0x",
    "1e999",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "../",
    "%s%n",
    "&#x0;",
    "<![CDATA[",
    "\r\n",
    ":",
];

/// Xorshift: the same numbers for the same seed everywhere.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap_or(0) % end.max(1)
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// A text that is nearly one of the samples.
fn altered(samples: &[&str], chance: &mut Chance) -> String {
    let mut bytes = chance.of(samples).as_bytes().to_vec();
    for _ in 0..=chance.below(6) {
        let (one, other) = (chance.below(bytes.len() + 1), chance.below(bytes.len() + 1));
        let (from, to) = (one.min(other), one.max(other));
        match chance.below(8) {
            0 => bytes.truncate(from),
            1 => drop(bytes.drain(from..to)),
            2 => {
                let piece = bytes[from..to].to_vec();
                bytes.splice(to..to, piece);
            }
            3 => {
                let odd = chance.of(&ODD).bytes();
                bytes.splice(from..from, odd);
            }
            4 if from < bytes.len() => bytes[from] = u8::try_from(chance.below(256)).unwrap_or(0),
            5 if from < bytes.len() => bytes[from] ^= 1 << chance.below(8),
            6 => {
                let spliced = chance.of(samples).as_bytes();
                let at = chance.below(spliced.len() + 1);
                bytes.truncate(from);
                bytes.extend(&spliced[at..]);
            }
            _ => {
                // one value a thousand deep
                let open = if chance.below(2) == 0 { "[" } else { "<a>" };
                bytes.splice(from..from, open.repeat(1000).into_bytes());
            }
        }
        bytes.truncate(1 << 16);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Altered samples are worth something only where the sample itself is read.
#[test]
fn the_samples_of_what_is_not_text_are_read() {
    let offered = frames::offer(&offer_with(&of_hex(OFFER_OPTIONS)), [1, 2, 3, 4]);
    assert_eq!(offered, Some([10, 100, 0, 254].into()));
}

#[test]
fn no_text_of_a_host_breaks_a_parser() {
    let count = number("GPUAAS_BAD_INPUTS").unwrap_or(DEFAULT_COUNT);
    let seed = number("GPUAAS_BAD_INPUT_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| {
            u64::try_from(now.as_nanos() & 0xffff_ffff_ffff).unwrap_or(1)
        })
    });
    println!("GPUAAS_BAD_INPUT_SEED={seed} GPUAAS_BAD_INPUTS={count}");
    for target in &TARGETS {
        let mut chance = Chance(seed | 1);
        for sample in target.samples {
            (target.parse)(sample);
        }
        for round in 0..count {
            let text = altered(target.samples, &mut chance);
            let parsed = catch_unwind(AssertUnwindSafe(|| (target.parse)(&text)));
            assert!(
                parsed.is_ok(),
                "{} panics at text {round} of GPUAAS_BAD_INPUT_SEED={seed}: {text:?}",
                target.name
            );
        }
    }
}
