//! Wipe certificates from the command line.
use std::time::Duration;

use gpuaas_wipe_certificate::{Device, ERASED, Statement, VERSION, Verification, sign};
use jiff::{SignedDuration, Timestamp};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use serde_json::{Value, json};

use crate::support::World;

const ALLOCATION: &str = "01920000-0000-7000-8000-000000000001";
const SLOT: &str = "01920000-0000-7000-8000-000000000002";
const NODE: &str = "01920000-0000-7000-8000-000000000003";
const INSTANCE: &str = "01920000-0000-7000-8000-000000000004";

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> Authority {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).expect("signed").pem();
    Authority {
        pem,
        issuer: Issuer::new(params, key),
    }
}

/// A certificate by a host whose own was issued so long before.
fn document(authority: &Authority, age: SignedDuration) -> String {
    let now = Timestamp::now();
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    let uri = format!("spiffe://cell-1/node/{NODE}/instance/{INSTANCE}");
    params.subject_alt_names = vec![SanType::URI(uri.try_into().expect("a uri"))];
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let at = |time: Timestamp| epoch + Duration::from_secs(time.as_second().unsigned_abs());
    params.not_before = at(now - age - SignedDuration::from_hours(1));
    params.not_after = at(now - age + SignedDuration::from_hours(1));
    let chain = params.signed_by(&key, &authority.issuer);
    let statement = Statement {
        version: VERSION,
        slot_id: SLOT.into(),
        generation: 4,
        allocation_id: ALLOCATION.into(),
        node_id: NODE.into(),
        instance_id: INSTANCE.into(),
        device: Device {
            identity: "/dev/disk/by-id/nvme-eui.000000000000000100a075244a103331".into(),
            serial: "234844A10331".into(),
            model: "Micron_7450".into(),
            wwid: String::new(),
            bytes: 1 << 30,
        },
        policy: "nvme_format".into(),
        method: "sanitize_block_erase".into(),
        start_time: now,
        end_time: now,
        verification: Verification {
            scope: "whole".into(),
            verified_bytes: 1 << 30,
            no_signatures: true,
            end_time: now,
        },
        result: ERASED.into(),
        sign_time: now,
        key_id: String::new(),
    };
    let chain = chain.expect("signed").pem();
    sign(statement, &key.serialize_pem(), &chain).expect("signed")
}

#[test]
fn p2_a_certificate_is_fetched_and_verified_offline() {
    let world = World::new();
    let authority = authority();
    let document = document(&authority, SignedDuration::ZERO);
    let listed = json!({ "certificates": [{
        "slot_id": SLOT, "slot_generation": "4", "policy": "nvme_format", "erase_method": "sanitize_block_erase",
        "accept_time": "2026-01-31T12:00:00Z", "document": document,
    }] });
    let path = format!("/api/v1/allocations/{ALLOCATION}/wipe-certificates");
    world.get(&path, listed);
    let folder = world.home.path().to_str().expect("text");
    let ran = world
        .run(&["certificate", ALLOCATION, "--folder", folder])
        .ok();
    assert!(
        ran.out.contains("sanitize_block_erase") && ran.out.contains("yes"),
        "{ran:?}"
    );
    let file = world.path(&format!("wipe-{SLOT}-4.json"));
    assert_eq!(std::fs::read_to_string(&file).expect("saved"), document);

    let ca = world.path("ca.pem");
    std::fs::write(&ca, &authority.pem).expect("write");
    let calls = world.seen().len();
    let (file, ca) = (file.to_str().expect("text"), ca.to_str().expect("text"));
    let verify = ["admin", "certificate", "verify", file, "--ca", ca];
    let ran = world.run(&verify).ok();
    for part in ["is valid", "234844A10331", "sanitize_block_erase", SLOT] {
        assert!(ran.out.contains(part), "{part}: {ran:?}");
    }
    let ran = world
        .run(&[&verify[..], &["--output", "json"]].concat())
        .ok();
    assert_eq!(ran.json()["statement"]["device"]["bytes"], json!(1 << 30));
    assert_eq!(world.seen().len(), calls, "nobody was asked");
}

#[test]
fn p2_what_proves_nothing_is_refused_with_its_reason() {
    let world = World::new();
    let (own, foreign) = (authority(), authority());
    let ca = world.path("ca.pem");
    std::fs::write(&ca, &own.pem).expect("write");
    let good = document(&own, SignedDuration::ZERO);
    let mut changed: Value = serde_json::from_str(&good).expect("json");
    changed["statement"]["device"]["serial"] = "other".into();
    for (text, why) in [
        (changed.to_string(), "what it says of device.serial"),
        (
            document(&foreign, SignedDuration::ZERO),
            "not signed by a host of this authority",
        ),
        (
            document(&own, SignedDuration::from_hours(48)),
            "did not count when it signed",
        ),
        ("nonsense".to_owned(), "no wipe certificate"),
    ] {
        let file = world.path("wipe.json");
        std::fs::write(&file, text).expect("write");
        let (file, ca) = (file.to_str().expect("text"), ca.to_str().expect("text"));
        let ran = world.run(&["admin", "certificate", "verify", file, "--ca", ca]);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.err.contains(why), "{why}: {ran:?}");
        assert!(!ran.out.contains("valid"), "{ran:?}");
    }
    let ran = world.run(&[
        "admin",
        "certificate",
        "verify",
        "missing",
        "--ca",
        "missing",
    ]);
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[test]
fn p2_an_operator_lists_the_certificates_of_a_slot() {
    let world = World::new();
    let path = format!("/api/v1/admin/nodes/{NODE}/resource-slots/{SLOT}/wipe-certificates");
    let one = json!({
        "slot_id": SLOT, "slot_generation": "3", "policy": "blkdiscard", "accept_time": "2026-01-31T12:00:00Z",
    });
    world.get(&path, json!({ "certificates": [one] }));
    let ran = world
        .run(&["admin", "certificate", "list", NODE, SLOT])
        .ok();
    assert!(
        ran.out.contains("blkdiscard") && ran.out.contains("no"),
        "{ran:?}"
    );
    let none = format!("/api/v1/allocations/{ALLOCATION}/wipe-certificates");
    world.get(&none, json!({ "certificates": [] }));
    let ran = world.run(&["certificate", ALLOCATION]).ok();
    assert!(ran.out.contains("not released yet"), "{ran:?}");
}
