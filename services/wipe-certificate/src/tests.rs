//! Certificates by keys and authorities that the test makes.
use std::time::Duration;

use jiff::SignedDuration;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PublicKeyData as _, SanType,
};

use super::*;

const NODE: &str = "0f5d4f6e-5f9c-4f0b-8a54-0d8d7b1f0a00";
const INSTANCE: &str = "0f5d4f6e-5f9c-4f0b-8a54-0d8d7b1f0a01";

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn now() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().unwrap()
}

fn authority(name: &str) -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let pem = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    Authority { pem, issuer }
}

/// A root and the intermediate that it signed, as cells have them.
fn with_intermediate() -> (String, Authority) {
    let root = authority("root");
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(DnType::CommonName, "hosts of cell 1");
    let pem = params.signed_by(&key, &root.issuer).unwrap().pem();
    let issuer = Issuer::new(params, key);
    (root.pem, Authority { pem, issuer })
}

/// A host's certificate of a day, around [`now`] plus `shift`.
fn host(authority: &Authority, key: &KeyPair, shift: SignedDuration) -> String {
    let mut params = CertificateParams::default();
    let uri = format!("spiffe://cell-1/node/{NODE}/instance/{INSTANCE}");
    params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let at = |time: Timestamp| epoch + Duration::from_secs(time.as_second().unsigned_abs());
    params.not_before = at(now() + shift - SignedDuration::from_hours(12));
    params.not_after = at(now() + shift + SignedDuration::from_hours(12));
    params.signed_by(key, &authority.issuer).unwrap().pem()
}

fn statement() -> Statement {
    Statement {
        version: VERSION,
        slot_id: "s".into(),
        generation: 3,
        allocation_id: "a".into(),
        node_id: NODE.into(),
        instance_id: INSTANCE.into(),
        device: Device {
            identity: "/dev/disk/by-id/nvme-eui.000000000000000100a075244a103331".into(),
            serial: "234844A10331".into(),
            model: "Micron_7450_MTFDKCB7T6TFR".into(),
            wwid: "eui.000000000000000100a075244a103331".into(),
            bytes: 4096,
        },
        policy: "blkdiscard".into(),
        method: "sanitize_crypto_erase".into(),
        start_time: now() - SignedDuration::from_mins(3),
        end_time: now() - SignedDuration::from_mins(2),
        verification: Verification {
            scope: "whole".into(),
            verified_bytes: 4096,
            no_signatures: true,
            end_time: now() - SignedDuration::from_mins(1),
        },
        result: ERASED.into(),
        sign_time: now(),
        key_id: String::new(),
    }
}

const NOW: SignedDuration = SignedDuration::ZERO;

#[test]
fn p2_a_certificate_verifies_offline_through_the_chain_in_it() {
    let (root, intermediate) = with_intermediate();
    let key = KeyPair::generate().unwrap();
    let chain = format!("{}{}", host(&intermediate, &key, NOW), intermediate.pem);
    let document = sign(statement(), &key.serialize_pem(), &chain).unwrap();
    let verified = verify(&document, &root).unwrap();
    let expected = Statement {
        key_id: key_id(&key.subject_public_key_info()),
        ..statement()
    };
    assert_eq!(verified, expected);
    // what a database makes of it: other order, other spaces
    let value: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(verify(&value.to_string(), &root).unwrap(), expected);
}

#[test]
fn every_kind_of_key_that_hosts_have_signs() {
    let root = authority("root");
    for kind in [&PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
        let key = KeyPair::generate_for(kind).unwrap();
        let chain = host(&root, &key, NOW);
        let document = sign(statement(), &key.serialize_pem(), &chain).unwrap();
        verify(&document, &root.pem).unwrap();
    }
}

#[test]
fn p2_a_changed_member_is_named() {
    let root = authority("root");
    let key = KeyPair::generate().unwrap();
    let chain = host(&root, &key, NOW);
    let document = sign(statement(), &key.serialize_pem(), &chain).unwrap();
    for (pointer, member) in [
        ("/statement/slot_id", "slot_id"),
        ("/statement/generation", "generation"),
        ("/statement/device/serial", "device.serial"),
        (
            "/statement/verification/no_signatures",
            "verification.no_signatures",
        ),
        ("/statement/method", "method"),
    ] {
        let mut value: Value = serde_json::from_str(&document).unwrap();
        *value.pointer_mut(pointer).unwrap() = "x".into();
        let refused = verify(&value.to_string(), &root.pem).unwrap_err();
        assert_eq!(refused, Refusal::Changed(member.into()));
    }
    let mut more: Value = serde_json::from_str(&document).unwrap();
    more["statement"]["approved_by"] = "nobody".into();
    let refused = verify(&more.to_string(), &root.pem).unwrap_err();
    assert_eq!(refused, Refusal::Changed("approved_by".into()));
    // what people read first is not what was signed, although a parser keeps the last
    let twice = document.replacen("\"serial\":", "\"serial\": \"OTHER\", \"serial\":", 1);
    assert_ne!(twice, document);
    assert!(matches!(
        verify(&twice, &root.pem),
        Err(Refusal::Malformed(_))
    ));
    let mut beside: Value = serde_json::from_str(&document).unwrap();
    beside["note"] = "covers all disks".into();
    let refused = verify(&beside.to_string(), &root.pem);
    assert!(matches!(refused, Err(Refusal::Malformed(_))));
}

#[test]
fn p2_a_changed_statement_has_no_signature_any_more() {
    let root = authority("root");
    let key = KeyPair::generate().unwrap();
    let chain = host(&root, &key, NOW);
    let signed = |statement| {
        let document = sign(statement, &key.serialize_pem(), &chain).unwrap();
        serde_json::from_str::<Value>(&document).unwrap()
    };
    let other = signed(Statement {
        slot_id: "t".into(),
        ..statement()
    });
    let own = signed(statement());
    // header and signature of one, statement of the other
    let parts = |value: &Value| -> Vec<String> {
        let jws = value["jws"].as_str().unwrap();
        jws.split('.').map(str::to_owned).collect()
    };
    let (own, payload) = (parts(&own), parts(&other)[1].clone());
    let forged = serde_json::json!({
        "statement": other["statement"], "jws": format!("{}.{payload}.{}", own[0], own[2]),
    });
    let refused = verify(&forged.to_string(), &root.pem).unwrap_err();
    assert_eq!(refused, Refusal::Signature);
    // another key with this host's certificate
    let stranger = KeyPair::generate().unwrap();
    let document = sign(statement(), &stranger.serialize_pem(), &chain).unwrap();
    let refused = verify(&document, &root.pem).unwrap_err();
    assert_eq!(refused, Refusal::Signature);
}

#[test]
fn p2_another_authority_and_an_expired_chain_are_refused() {
    let (root, foreign) = (authority("root"), authority("foreign"));
    let key = KeyPair::generate().unwrap();
    let pem = key.serialize_pem();
    let document = sign(statement(), &pem, &host(&foreign, &key, NOW)).unwrap();
    let refused = verify(&document, &root.pem).unwrap_err();
    assert!(
        matches!(refused, Refusal::ForeignAuthority(_)),
        "{refused:?}"
    );
    // of the same name, with another key
    let namesake = authority("root");
    let document = sign(statement(), &pem, &host(&namesake, &key, NOW)).unwrap();
    let refused = verify(&document, &root.pem).unwrap_err();
    assert!(
        matches!(refused, Refusal::ForeignAuthority(_)),
        "{refused:?}"
    );
    for days in [-1, 1] {
        let chain = host(&root, &key, SignedDuration::from_hours(24 * days));
        let document = sign(statement(), &pem, &chain).unwrap();
        let refused = verify(&document, &root.pem).unwrap_err();
        assert_eq!(refused, Refusal::ExpiredAtSigning(now()));
        assert!(refused.to_string().contains("when it signed"), "{refused}");
    }
    assert_eq!(verify(&document, "x").unwrap_err(), Refusal::Authority);
}

#[test]
fn p2_a_host_signs_for_itself_alone() {
    let root = authority("root");
    let key = KeyPair::generate().unwrap();
    let other = Statement {
        instance_id: NODE.into(),
        ..statement()
    };
    let document = sign(other, &key.serialize_pem(), &host(&root, &key, NOW)).unwrap();
    let refused = verify(&document, &root.pem).unwrap_err();
    assert_eq!(refused, Refusal::OtherHost);
}

#[test]
fn p2_a_statement_that_contradicts_itself_proves_nothing() {
    let root = authority("root");
    let key = KeyPair::generate().unwrap();
    let chain = host(&root, &key, NOW);
    let changes: [fn(&mut Statement); 6] = [
        |s| s.result = "tried".into(),
        |s| s.verification.no_signatures = false,
        |s| s.verification.verified_bytes = 4095,
        |s| s.verification.scope = "some".into(),
        |s| s.device.bytes = 0,
        |s| s.start_time = s.sign_time,
    ];
    for change in changes {
        let mut statement = statement();
        change(&mut statement);
        let document = sign(statement, &key.serialize_pem(), &chain).unwrap();
        let refused = verify(&document, &root.pem).unwrap_err();
        assert!(matches!(refused, Refusal::ProvesNothing(_)), "{refused:?}");
    }
    let later = Statement {
        version: 2,
        ..statement()
    };
    let document = sign(later, &key.serialize_pem(), &chain).unwrap();
    assert_eq!(
        verify(&document, &root.pem).unwrap_err(),
        Refusal::Version(2)
    );
}

#[test]
fn what_is_no_certificate_is_refused() {
    for text in [
        "",
        "{}",
        r#"{"statement": {}, "jws": ""}"#,
        r#"{"statement": {}, "jws": "a.b.c"}"#,
    ] {
        let refused = verify(text, "").unwrap_err();
        assert!(
            matches!(refused, Refusal::Malformed(_)),
            "{text}: {refused:?}"
        );
    }
    let key = KeyPair::generate().unwrap();
    assert!(sign(statement(), &key.serialize_pem(), "nothing").is_err());
}
