//! Verifies the hash chains of audit records as the API shows them; see the operator's guide for what a digest covers. It
//! shares no code with the service that seals records.
use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Members of a record that its digest covers; each is a string.
const MEMBERS: [&str; 14] = [
    "action",
    "address",
    "create_time",
    "detail",
    "id",
    "position",
    "principal",
    "region",
    "request_id",
    "resource",
    "resource_id",
    "service",
    "source",
    "user_agent",
];

/// A place in a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// 0 before the first record.
    pub position: i64,
    /// In hex.
    pub digest: String,
}

impl Place {
    /// From an object with `position` and `digest`.
    pub fn read(value: &Value) -> Option<Self> {
        let digest = text(value, "digest").to_owned();
        is_digest(&digest).then_some(Self {
            position: position(value)?,
            digest,
        })
    }
}

/// A place of a chain that somebody noted down before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Source of the chain.
    pub source: String,
    /// The place.
    pub place: Place,
}

impl std::str::FromStr for Expected {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule = || "must be SOURCE:POSITION:DIGEST, as `verify` prints checkpoints".to_owned();
        let mut parts = text.splitn(3, ':');
        let source = parts.next().filter(|one| !one.is_empty());
        let position = parts.next().and_then(|one| one.parse().ok());
        let digest = parts.next().filter(|one| is_digest(one));
        match (source, position, digest) {
            (Some(source), Some(position), Some(digest)) => Ok(Self {
                source: source.to_owned(),
                place: Place {
                    position,
                    digest: digest.to_owned(),
                },
            }),
            _ => Err(rule()),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { position, digest } = &self.place;
        write!(f, "{}:{position}:{digest}", self.source)
    }
}

/// A chain that is being verified, record by record.
#[derive(Clone, Debug)]
pub struct Chain {
    source: String,
    start: Place,
    head: Place,
    /// Records seen.
    records: u64,
    expected: Vec<(Place, bool)>,
    findings: Vec<String>,
}

impl Chain {
    /// A chain whose oldest record follows `start`. Each of `expected` that is of this source must be in it.
    pub fn new(source: &str, start: Place, expected: &[Expected]) -> Self {
        let expected = expected.iter().filter(|one| one.source == source);
        let mut chain = Self {
            source: source.to_owned(),
            head: start.clone(),
            start,
            records: 0,
            expected: expected.map(|one| (one.place.clone(), false)).collect(),
            findings: Vec::new(),
        };
        chain.compare();
        chain
    }

    /// The next record.
    pub fn add(&mut self, record: &Value) {
        self.records += 1;
        let id = text(record, "id");
        let stored = text(record, "digest");
        let Some(position) = position(record).filter(|_| is_digest(stored)) else {
            self.find(&format!("record {id} has no position or no digest"));
            return;
        };
        let next = self.head.position + 1;
        if position < next {
            self.find(&format!(
                "record {id} at position {position} is out of order: position {next} is expected"
            ));
            return;
        }
        if position > next {
            let last = position - 1;
            let missing = if next == last {
                format!("the record at position {next} is missing")
            } else {
                format!("the records at positions {next} to {last} are missing")
            };
            self.find(&format!("{missing}; the next one is {id}"));
        } else if digest(&self.head.digest, record).as_deref() != Some(stored) {
            self.find(&format!(
                "record {id} at position {position} does not match its digest: the record was changed or replaced"
            ));
        }
        // from here on the stored digest counts, so that each finding is of one record
        self.head = Place {
            position,
            digest: stored.to_owned(),
        };
        self.compare();
    }

    /// Takes a place that the chain is said to go on from, as an export that was continued says.
    pub fn continue_from(&mut self, place: &Place) {
        if *place != self.head {
            let (at, head) = (place.position, self.head.position);
            self.find(&format!(
                "the export goes on after position {at}, and its records before end at position {head} or differ there"
            ));
            self.head = place.clone();
        }
    }

    fn compare(&mut self) {
        let mut differs = Vec::new();
        for (place, met) in &mut self.expected {
            if place.position == self.head.position {
                *met = true;
                if place.digest != self.head.digest {
                    differs.push(place.position);
                }
            }
        }
        for position in differs {
            self.find(&format!(
                "the digest at position {position} differs from the checkpoint: the chain was rewritten"
            ));
        }
    }

    fn find(&mut self, what: &str) {
        self.findings.push(format!("{}: {what}", self.source));
    }

    /// The chain is over.
    pub fn finish(mut self) -> Verified {
        let missed: Vec<i64> = self
            .expected
            .iter()
            .filter(|(_, met)| !met)
            .map(|(place, _)| place.position)
            .collect();
        for position in missed {
            let head = self.head.position;
            if position > head {
                self.find(&format!(
                    "the chain ends at position {head}, but position {position} is expected: its newest records were \
                     removed"
                ));
            } else if position < self.start.position {
                self.find(&format!(
                    "the records up to position {position} are past their retention time; verify an older export"
                ));
            }
        }
        Verified {
            source: self.source,
            records: self.records,
            start: self.start,
            head: self.head,
            findings: self.findings,
        }
    }
}

/// What was found of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Its source.
    pub source: String,
    /// Records seen.
    pub records: u64,
    /// What the first of them follows.
    pub start: Place,
    /// The last of them.
    pub head: Place,
    /// What is wrong, each naming a record or position; empty for a sound chain.
    pub findings: Vec<String>,
}

/// The digest of a record that follows another; nothing when the digest before is none.
fn digest(before: &str, record: &Value) -> Option<String> {
    let members: BTreeMap<&str, &str> = MEMBERS
        .into_iter()
        .map(|name| (name, text(record, name)))
        .collect();
    let mut hash = Sha256::new();
    hash.update(hex::decode(before).ok()?);
    hash.update(serde_json::to_string(&members).ok()?);
    Some(hex::encode(hash.finalize()))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn position(value: &Value) -> Option<i64> {
    text(value, "position").parse().ok()
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn genesis() -> Place {
        Place {
            position: 0,
            digest: "0".repeat(64),
        }
    }

    /// Records of a sound chain.
    fn records(count: i64) -> Vec<Value> {
        let mut before = genesis().digest;
        let mut records = Vec::new();
        for position in 1..=count {
            let mut record = json!({
                "id": format!("id-{position}"), "source": "edge", "service": "edge", "principal": "user:zoë",
                "create_time": "2026-01-01T00:00:00.120Z", "action": "a.b", "resource": "c", "resource_id": "d\u{1}",
                "request_id": "", "address": "192.0.2.1", "user_agent": "curl/8 \"x\"", "region": "", "detail": "{}",
                "position": position.to_string(), "outcome": "denied",
            });
            before = digest(&before, &record).expect("a digest");
            record["digest"] = json!(before);
            records.push(record);
        }
        records
    }

    fn verified(records: &[Value], expected: &[Expected]) -> Verified {
        let mut chain = Chain::new("edge", genesis(), expected);
        for record in records {
            chain.add(record);
        }
        chain.finish()
    }

    fn noted(record: &Value) -> Expected {
        Expected {
            source: "edge".to_owned(),
            place: Place::read(record).expect("sealed"),
        }
    }

    #[test]
    fn p10_a_digest_is_the_one_that_the_service_makes() {
        // the known value of the service's own test
        let record = json!({
            "id": "01930000-0001-7000-8000-000000000001", "source": "billing", "service": "billing",
            "create_time": "2026-01-01T00:00:00.120Z", "principal": "user:zoë", "action": "price.create",
            "resource": "price_version", "resource_id": "p\u{1}\"\\", "request_id": "r", "address": "192.0.2.1",
            "user_agent": "curl/8", "region": "r1", "detail": "{\"sku\": \"a\\nb\"}", "position": "1",
        });
        assert_eq!(
            digest(&genesis().digest, &record).as_deref(),
            Some("9cd51cd4bc446c35b362c35cc0b5eb69ccfcec42c53f10f31c859c079e826709")
        );
    }

    #[test]
    fn p10_what_was_done_to_a_chain_is_named() {
        let sound = records(6);
        let last = noted(&sound[5]);
        let found = verified(&sound, std::slice::from_ref(&last));
        assert_eq!(
            (found.findings.as_slice(), found.records),
            ([].as_slice(), 6)
        );
        assert_eq!(found.head, last.place);

        let changed = {
            let mut records = sound.clone();
            records[2]["principal"] = json!("user:bob");
            records
        };
        let missing = [&sound[..2], &sound[3..]].concat();
        let several = [&sound[..1], &sound[4..]].concat();
        let swapped = {
            let mut records = sound.clone();
            for name in ["position", "digest"] {
                let (one, other) = (records[2][name].clone(), records[3][name].clone());
                (records[2][name], records[3][name]) = (other, one);
            }
            records.swap(2, 3);
            records
        };
        let shuffled = {
            let mut records = sound.clone();
            records.swap(2, 3);
            records
        };
        let cut = sound[..4].to_vec();
        let unsealed = {
            let mut records = sound.clone();
            records[5]["digest"] = json!("");
            records
        };
        let table = [
            (changed, vec!["record id-3 at position 3 does not match"]),
            (
                missing,
                vec!["the record at position 3 is missing; the next one is id-4"],
            ),
            (several, vec!["the records at positions 2 to 4 are missing"]),
            (
                swapped,
                vec![
                    "record id-4 at position 3 does not",
                    "record id-3 at position 4 does not",
                ],
            ),
            (
                shuffled,
                vec![
                    "the record at position 3 is missing",
                    "record id-3 at position 3 is out of order",
                ],
            ),
            (
                cut,
                vec!["the chain ends at position 4, but position 6 is expected"],
            ),
            (
                unsealed,
                vec![
                    "record id-6 has no position or no digest",
                    "the chain ends at position 5",
                ],
            ),
        ];
        for (records, expected) in table {
            let found = verified(&records, std::slice::from_ref(&last)).findings;
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(
                    found.starts_with("edge: ") && found.contains(expected),
                    "{found}"
                );
            }
        }
    }

    #[test]
    fn p10_a_chain_that_was_written_anew_is_not_the_one_that_was_noted() {
        let noted = noted(&records(3)[1]);
        let mut forged = records(3);
        let mut before = forged[0]["digest"].as_str().expect("text").to_owned();
        forged[1]["principal"] = json!("user:bob");
        for record in &mut forged[1..] {
            before = digest(&before, record).expect("a digest");
            record["digest"] = json!(before);
        }
        assert!(
            verified(&forged, &[]).findings.is_empty(),
            "nothing else shows it"
        );
        let found = verified(&forged, &[noted]).findings;
        assert!(
            found.len() == 1 && found[0].contains("position 2"),
            "{found:?}"
        );
    }

    #[test]
    fn noted_places_are_read_as_they_are_printed() {
        let text = format!("edge:7:{}", "ab".repeat(32));
        let read: Expected = text.parse().expect("a place");
        assert_eq!(read.to_string(), text);
        for bad in [
            "",
            "edge",
            "edge:7",
            "edge:x:00",
            ":7:00",
            &text.to_uppercase(),
        ] {
            assert!(bad.parse::<Expected>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_export_that_was_continued_is_one_chain() {
        let sound = records(4);
        let continued = |at: usize| {
            let mut chain = Chain::new("edge", genesis(), &[]);
            chain.add(&sound[0]);
            chain.add(&sound[1]);
            chain.continue_from(&Place::read(&sound[at]).expect("sealed"));
            for record in &sound[at + 1..] {
                chain.add(record);
            }
            chain.finish().findings
        };
        assert!(continued(1).is_empty());
        let found = continued(2);
        assert!(found[0].contains("goes on after position 3"), "{found:?}");
    }
}
