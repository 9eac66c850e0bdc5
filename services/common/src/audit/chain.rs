//! The hash chain: what the digest of a record covers. Anybody can recompute it from what the API shows.
//!
//! The canonical JSON of a record is an object of its members in [`MEMBERS`], each a string exactly as the API writes it, with
//! the names sorted, without white space, and with no more escaped than JSON demands (RFC 8785). The digest of a record is
//! SHA-256 of the 32 bytes of the digest before it, followed by the canonical JSON. The first record follows 32 zero bytes.
use std::collections::BTreeMap;

use gpuaas_proto::gpuaas::audit::v1::AuditRecord;
use sha2::{Digest as _, Sha256};

/// A digest.
pub type Digest = [u8; 32];

/// Members of a record that its digest covers.
pub const MEMBERS: [&str; 14] = [
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

/// The canonical JSON of a record.
pub fn canonical(record: &AuditRecord) -> String {
    let time = record.create_time.as_ref();
    let members = BTreeMap::from([
        ("action", record.action.clone()),
        ("address", record.address.clone()),
        (
            "create_time",
            time.map_or_else(String::new, ToString::to_string),
        ),
        ("detail", record.detail.clone()),
        ("id", record.id.clone()),
        ("position", record.position.to_string()),
        ("principal", record.principal.clone()),
        ("region", record.region.clone()),
        ("request_id", record.request_id.clone()),
        ("resource", record.resource.clone()),
        ("resource_id", record.resource_id.clone()),
        ("service", record.service.clone()),
        ("source", record.source.clone()),
        ("user_agent", record.user_agent.clone()),
    ]);
    serde_json::to_string(&members).expect("text is JSON")
}

/// The digest of a record that follows another.
pub fn digest(before: &Digest, record: &AuditRecord) -> Digest {
    let mut hash = Sha256::new();
    hash.update(before);
    hash.update(canonical(record));
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python's `json` and `hashlib`, as the operator's guide shows.
    const KNOWN: &str = "9cd51cd4bc446c35b362c35cc0b5eb69ccfcec42c53f10f31c859c079e826709";

    fn record() -> AuditRecord {
        AuditRecord {
            id: "01930000-0001-7000-8000-000000000001".to_owned(),
            source: "billing".to_owned(),
            service: "billing".to_owned(),
            create_time: Some(prost_types::Timestamp {
                seconds: 1_767_225_600,
                nanos: 120_000_000,
            }),
            principal: "user:zoë".to_owned(),
            action: "price.create".to_owned(),
            resource: "price_version".to_owned(),
            resource_id: "p\u{1}\"\\".to_owned(),
            request_id: "r".to_owned(),
            address: "192.0.2.1".to_owned(),
            user_agent: "curl/8".to_owned(),
            region: "r1".to_owned(),
            detail: "{\"sku\": \"a\\nb\"}".to_owned(),
            position: 1,
            ..AuditRecord::default()
        }
    }

    #[test]
    fn p10_a_digest_is_the_one_that_others_compute() {
        let canonical = canonical(&record());
        assert!(
            canonical.contains("\"create_time\":\"2026-01-01T00:00:00.120Z\""),
            "{canonical}"
        );
        let names: BTreeMap<String, String> = serde_json::from_str(&canonical).expect("strings");
        assert!(names.keys().map(String::as_str).eq(MEMBERS));
        assert_eq!(hex::encode(digest(&[0; 32], &record())), KNOWN);
    }

    #[test]
    fn p10_every_member_and_the_record_before_are_covered() {
        let known = digest(&[0; 32], &record());
        assert_ne!(digest(&[1; 32], &record()), known);
        let changes: [fn(&mut AuditRecord); 14] = [
            |one| one.id.push('x'),
            |one| one.source.push('x'),
            |one| one.service.push('x'),
            |one| one.create_time = None,
            |one| one.principal.push('x'),
            |one| one.action.push('x'),
            |one| one.resource.push('x'),
            |one| one.resource_id.push('x'),
            |one| one.request_id.push('x'),
            |one| one.address.push('x'),
            |one| one.user_agent.push('x'),
            |one| one.region.push('x'),
            |one| one.detail.push('x'),
            |one| one.position += 1,
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut changed = record();
            change(&mut changed);
            assert_ne!(digest(&[0; 32], &changed), known, "change {index}");
        }
    }
}
