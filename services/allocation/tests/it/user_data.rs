//! User data of a launch: it reaches the host, and nobody reads it anywhere else.

use gpuaas_common::Error;
use gpuaas_common::user_data::UserData;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::platform::{Platform, good};

const SECRET: &str = "correct-horse";

fn text() -> String {
    format!("#cloud-config\nwrite_files: [{{path: /t, content: {SECRET}}}]\n")
}

fn with(name: &str, user_data: &str) -> pb::CreateAllocationRequest {
    pb::CreateAllocationRequest {
        user_data: user_data.into(),
        ..good(name)
    }
}

/// Whether an answer has the secret anywhere.
fn shows(message: &impl prost::Message) -> bool {
    let bytes = message.encode_to_vec();
    let mut windows = bytes.windows(SECRET.len());
    windows.any(|window| window == SECRET.as_bytes())
}

/// Tables of the ledger that have the secret in some row.
async fn tables(platform: &Platform) -> Vec<String> {
    let names: Vec<String> = sqlx::query_scalar(
        "SELECT table_name::text FROM information_schema.tables
          WHERE table_schema = 'placement' AND table_type = 'BASE TABLE' ORDER BY 1",
    )
    .fetch_all(&platform.world.owner)
    .await
    .expect("tables");
    let mut found = Vec::new();
    for name in names {
        let sql = format!(
            "SELECT EXISTS (SELECT FROM placement.{name} AS t WHERE t::text LIKE '%{SECRET}%')"
        );
        let has: bool = sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
            .fetch_one(&platform.world.owner)
            .await
            .expect("a look");
        if has {
            found.push(name);
        }
    }
    found
}

#[tokio::test]
async fn user_data_reaches_the_host_and_is_shown_by_its_digest_alone() {
    let platform = Platform::start().await;
    let text = text();
    let data: UserData = text.parse().expect("user data");
    let expected = Some(pb::AllocationUserData {
        digest: data.digest(),
        size_bytes: text.len() as u32,
    });
    let dry = pb::CreateAllocationRequest {
        validate_only: true,
        ..with("web", &text)
    };
    let dry = platform.create(dry, "key-0").await.expect("valid");
    assert_eq!(dry.config.as_ref().expect("the config").user_data, expected);
    assert!(!shows(&dry));
    assert!(
        tables(&platform).await.is_empty(),
        "a dry run stores nothing"
    );

    let made = platform.create(with("web", &text), "key-1").await;
    let made = made.expect("created");
    assert_eq!(
        made.config.as_ref().expect("the config").user_data,
        expected
    );
    let id: Uuid = made.id.parse().expect("a uuid");
    platform.world.until_state(id, "active").await;
    platform.world.until_idle(id).await;
    assert_eq!(platform.world.host.launch_of(id).user_data, text);
    assert!(
        tables(&platform).await.is_empty(),
        "the ledger forgets it with the launch, and no event, audit row or task ever has it"
    );
    let read = platform.get(&made.id).await;
    assert_eq!(
        read.config.as_ref().expect("the config").user_data,
        expected
    );
    assert!(!shows(&read) && !shows(&made));
    let listed = platform
        .users
        .clone()
        .list_allocations(platform.user(pb::ListAllocationsRequest::default(), None))
        .await
        .expect("a list")
        .into_inner();
    assert!(!shows(&listed) && listed.allocations[0].config == read.config);

    // the same key with other user data, or none, is another request
    for other in ["#cloud-config\n", ""] {
        let refused = platform.create(with("web", other), "key-1").await;
        let refused: Error = refused.expect_err("another request");
        assert_eq!(refused.reason(), ErrorReason::IdempotencyKeyReused);
    }
    let again = platform.create(with("web", &text), "key-1").await;
    assert_eq!(again.expect("replayed").id, made.id);

    platform.release(&made.id, "key-2").await.expect("accepted");
    platform.world.until_state(id, "released").await;
    let left = platform.world.host.launch_of(id);
    assert_eq!(
        left,
        Default::default(),
        "the host forgets the launch with its VM"
    );
}

#[tokio::test]
async fn user_data_of_a_queued_launch_is_kept_until_it_ends() {
    let platform = Platform::start().await;
    let mut fillers = Vec::new();
    for name in ["filler-1", "filler-2"] {
        let filler = platform.create(good(name), name).await.expect("created");
        let id = filler.id.parse().expect("a uuid");
        platform.world.until_state(id, "active").await;
        fillers.push(filler.id);
    }
    let in_an_hour = prost_types::Timestamp {
        seconds: jiff::Timestamp::now().as_second() + 3600,
        nanos: 0,
    };
    let queued = |name: &str| pb::CreateAllocationRequest {
        wait: Some(pb::Wait {
            deadline: Some(in_an_hour),
        }),
        ..with(name, &text())
    };
    let given_up = platform
        .create(queued("given-up"), "key-2")
        .await
        .expect("queued");
    assert_eq!(tables(&platform).await, ["allocation_user_data"]);
    platform
        .release(&given_up.id, "key-3")
        .await
        .expect("accepted");
    assert!(tables(&platform).await.is_empty(), "its owner took it back");

    let served = platform
        .create(queued("served"), "key-4")
        .await
        .expect("queued");
    platform
        .release(&fillers[0], "key-5")
        .await
        .expect("accepted");
    let id: Uuid = served.id.parse().expect("a uuid");
    platform.world.until_state(id, "active").await;
    assert_eq!(platform.world.host.launch_of(id).user_data, text());
    assert!(tables(&platform).await.is_empty());
}

/// A tenant's own program is no reason to take GPUs out of service: what it left is wiped, with proof, as after a release.
#[tokio::test]
async fn con_25_user_data_that_keeps_a_guest_from_being_ready_blocks_no_slot() {
    let platform = Platform::start().await;
    platform.world.host.script(|script| {
        let class = gpuaas_proto::gpuaas::agent::v1::FailureClass::Guest;
        script.fail = Some(("provision", "wait_login", ErrorReason::GuestNoLogin, class));
    });
    let text = "#cloud-config\nbootcmd: [poweroff]\n";
    let made = platform.create(with("web", text), "key-1").await;
    let made = made.expect("created");
    let id: Uuid = made.id.parse().expect("a uuid");
    platform.world.until_state(id, "failed").await;
    let slot = platform.world.slot_of(id).await.id;
    platform
        .world
        .until(
            "the slot is available again",
            "SELECT EXISTS (SELECT FROM slots s JOIN claims c ON c.slot_id = s.id
                             WHERE c.allocation_id = $1 AND c.state = 'released' AND s.status = 'available')",
            id,
        )
        .await;
    let kind: String = sqlx::query_scalar(
        "SELECT kind FROM placement.clean_evidence WHERE slot_id = $1 ORDER BY generation DESC LIMIT 1",
    )
    .bind(slot)
    .fetch_one(&platform.world.owner)
    .await
    .expect("evidence");
    assert_eq!(kind, "wiped");
    let failure = platform.get(&made.id).await.status.expect("a status");
    let failure = failure.failure.expect("a failure");
    assert!(
        failure.message.contains("user data may be the cause"),
        "{}",
        failure.message
    );
    assert!(
        !failure.message.contains("serial console ended with"),
        "{}",
        failure.message
    );
}
