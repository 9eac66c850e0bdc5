//! Display names of allocations in every script are kept as they are; what would deceive a reader or a program is refused.
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::api_operator_actions::refused;
use crate::host::DISK_BYTES;
use crate::platform::Platform;

const GOOD: [&str; 9] = [
    "Müller & Söhne",
    "株式会社アクメ",
    "شركة أكمي",
    "חברת אקמי",
    "अक्मे प्राइवेट लिमिटेड",
    "ბანკი 🏦",
    "<script>alert(1)</script>",
    "'; DROP TABLE allocations; --",
    "{{7*7}}${jndi:ldap://x}",
];

const BAD: [&str; 8] = [
    "a\u{0}b",
    "a\nb",
    "a\u{1b}[31mb",
    "a\u{7f}",
    "a\u{85}b",
    "a\u{202e}b",
    "a\u{2066}b",
    "a\u{2028}b",
];

#[tokio::test]
async fn display_names_of_every_script_are_kept_and_hostile_ones_are_refused() {
    let platform = Platform::start().await;
    let id = platform.launched("web", "key-1").await;
    let longest = "名".repeat(200);
    for (number, good) in GOOD.into_iter().chain([longest.as_str()]).enumerate() {
        let key = format!("good-{number}");
        let renamed = platform.rename(&id, Some(good), &key).await;
        assert_eq!(renamed.expect("renamed").display_name, good);
        let kept = platform.get(&id).await;
        assert_eq!(kept.display_name, good);
        assert_eq!(kept.config.expect("a config").name, "web");
        // who follows the events reads the same
        let (_, told) = platform.events(&id).await.pop().expect("an event");
        assert_eq!(told["display_name"], good, "{told}");
    }
    let before = platform.get(&id).await;
    for (number, bad) in BAD.into_iter().enumerate() {
        let key = format!("bad-{number}");
        let answer = platform.rename(&id, Some(bad), &key).await;
        assert_eq!(refused(answer).2, "display_name", "{bad:?}");
    }
    assert_eq!(platform.get(&id).await, before, "nothing changed");
}

#[tokio::test]
async fn an_allocation_is_renamed_for_people_and_says_who_launched_it_and_what_it_has() {
    let platform = Platform::start().await;
    let id = platform.launched("web", "key-1").await;
    let before = platform.get(&id).await;
    assert_eq!(
        (before.display_name.as_str(), before.creator.as_str()),
        ("", "user:test")
    );
    assert_eq!(platform.timeline(&id).await[0].actor, "user:test");
    let resources = before
        .status
        .clone()
        .and_then(|status| status.resources)
        .expect("of the slot");
    let expected = pb::VmResources {
        vcpus: 1,
        memory_mib: 256,
        disks: 1,
        disk_bytes: DISK_BYTES,
    };
    assert_eq!(resources, expected);

    for (bad, field) in [
        (None, "display_name"),
        (Some("two\nlines"), "display_name"),
        (Some("web\u{202e}gnp"), "display_name"),
        (Some(&*"x".repeat(201)), "display_name"),
    ] {
        assert_eq!(refused(platform.rename(&id, bad, "key-2").await).2, field);
    }
    for _ in 0..2 {
        let renamed = platform
            .rename(&id, Some(" Training, run 7 "), "key-2")
            .await
            .expect("renamed");
        assert_eq!(renamed.display_name, "Training, run 7");
        assert_eq!(
            renamed.config.expect("a config").name,
            "web",
            "the host name stays"
        );
    }
    let same = platform
        .rename(&id, Some("Training, run 7"), "key-3")
        .await
        .expect("the same");
    let revision = |one: &pb::Allocation| one.metadata.as_ref().expect("metadata").revision;
    assert_eq!(
        revision(&same),
        revision(&before) + 1,
        "the same name is no change"
    );
    let audited = platform.audited("allocation.update").await;
    let [(_, first), (_, second)] = audited.as_slice() else {
        panic!("two rows: {audited:?}");
    };
    assert_ne!(first["before_digest"], first["after_digest"]);
    assert_eq!(
        [&second["before_digest"], &second["after_digest"]],
        [&first["after_digest"]; 2],
        "P10: the second one found what the first had left, and changed nothing"
    );
    // as the operator's guide says it: what the event tells, without claims, in canonical JSON
    let mut told = platform.events(&id).await.pop().expect("an event").1;
    told["claims"] = serde_json::json!([]);
    told.sort_all_objects();
    let digest = hex::encode(Sha256::digest(told.to_string()));
    assert_eq!(first["after_digest"], digest, "{told}");
    let launched = platform.audited("allocation.create").await;
    let made = &launched[0].1;
    assert_eq!(made.get("before_digest"), None);
    assert!(made["after_digest"].is_string());
    platform.assert_sound().await;

    let request = pb::UpdateAllocationRequest {
        allocation_id: id.clone(),
        display_name: Some("mine".into()),
        ..Default::default()
    };
    let mut users = platform.users.clone();
    let foreign = platform.as_person(request, "user:stranger", Uuid::now_v7(), false, Some("k"));
    assert_eq!(
        refused(users.update_allocation(foreign).await).1,
        ErrorReason::AllocationNotFound
    );
    let unnamed = platform
        .rename(&id, Some(""), "key-4")
        .await
        .expect("renamed");
    assert_eq!(unnamed.display_name, "");
}
