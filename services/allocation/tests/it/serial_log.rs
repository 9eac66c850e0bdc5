//! What a VM printed on its serial console, from the host's disk to its tenant, and to nobody else.
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::read_serial_log_response::Event;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Streaming;
use uuid::Uuid;

use crate::platform::{Platform, good};
use crate::watch::next;

fn of(id: Uuid, follow: bool, token: &str) -> pb::ReadSerialLogRequest {
    pb::ReadSerialLogRequest {
        allocation_id: id.to_string(),
        resume_token: token.to_owned(),
        follow,
        ..pb::ReadSerialLogRequest::default()
    }
}

impl Platform {
    async fn serial_log_as(
        &self,
        principal: &str,
        project: Uuid,
        request: pb::ReadSerialLogRequest,
    ) -> Result<Streaming<pb::ReadSerialLogResponse>, Error> {
        let request = self.as_person(request, principal, project, false, None);
        let answer = self.users.clone().read_serial_log(request).await;
        Ok(answer.map_err(Error::from)?.into_inner())
    }

    async fn serial_log(
        &self,
        request: pb::ReadSerialLogRequest,
    ) -> Result<Streaming<pb::ReadSerialLogResponse>, Error> {
        self.serial_log_as("user:test", self.world.project, request)
            .await
    }

    /// Everything of a stream that ends, and the token of its last message.
    async fn serial_text(&self, request: pb::ReadSerialLogRequest) -> (String, String) {
        let mut stream = self.serial_log(request).await.expect("opened");
        rest(&mut stream).await
    }

    async fn readings(&self, id: Uuid) -> i64 {
        sqlx::query_scalar(
            "SELECT count(*) FROM placement.audit WHERE action = 'serial_log.read' AND resource_id = $1 AND principal = 'user:test'",
        )
        .bind(id.to_string())
        .fetch_one(&self.world.pool)
        .await
        .expect("rows")
    }
}

async fn rest(stream: &mut Streaming<pb::ReadSerialLogResponse>) -> (String, String) {
    let mut text = Vec::new();
    loop {
        let message = next(stream).await;
        match message.event.expect("an event") {
            Event::Part(part) => {
                assert!(part.print_time.is_some());
                text.extend(part.data);
            }
            Event::End(_) => {
                return (String::from_utf8(text).expect("text"), message.resume_token);
            }
            Event::Synced(_) | Event::Heartbeat(_) => {}
        }
    }
}

#[tokio::test]
async fn p10_a_serial_log_is_its_tenants_alone_and_every_reading_is_on_record() {
    let platform = Platform::start().await;
    let world = &platform.world;
    let created = platform.create(good("web"), "web").await.expect("created");
    let id: Uuid = created.id.parse().expect("a uuid");
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    world.host.print(id, "Linux version 6.1\n");

    let (text, token) = platform.serial_text(of(id, false, "")).await;
    assert_eq!(text, "Linux version 6.1\n");
    assert_eq!(platform.readings(id).await, 1);
    world.host.print(id, "login: \n");
    let (text, later) = platform.serial_text(of(id, false, &token)).await;
    assert_eq!(text, "login: \n", "only what is new");
    let last = pb::ReadSerialLogRequest {
        tail_lines: Some(1),
        ..of(id, false, "")
    };
    assert_eq!(platform.serial_text(last).await.0, "login: \n");
    let since = pb::ReadSerialLogRequest {
        since_time: Some(prost_types::Timestamp {
            seconds: jiff::Timestamp::now().as_second() + 3600,
            nanos: 0,
        }),
        ..of(id, false, "")
    };
    assert_eq!(platform.serial_text(since).await.0, "");

    // the stranger's answer is that of what does not exist
    let mut reported = Vec::new();
    for (project, id) in [(Uuid::now_v7(), id), (world.project, Uuid::now_v7())] {
        let refused = platform
            .serial_log_as("user:stranger", project, of(id, true, ""))
            .await
            .expect_err("refused");
        assert_eq!(refused.reason(), ErrorReason::AllocationNotFound);
        reported.push(refused.to_string());
    }
    assert_eq!(reported[0], reported[1]);
    let other = platform.create(good("other"), "o").await.expect("created");
    let other: Uuid = other.id.parse().expect("a uuid");
    world.until_state(other, "active").await;
    let lines = |tail_lines| pb::ReadSerialLogRequest {
        tail_lines: Some(tail_lines),
        ..of(id, false, "")
    };
    for (request, reason, field) in [
        (
            of(other, false, &later),
            ErrorReason::ResumeTokenInvalid,
            Some("resume_token"),
        ),
        (
            of(id, false, "%"),
            ErrorReason::ResumeTokenInvalid,
            Some("resume_token"),
        ),
        (
            lines(100_001),
            ErrorReason::FieldInvalid,
            Some("tail_lines"),
        ),
    ] {
        let refused = platform.serial_log(request).await.expect_err("refused");
        assert_eq!(refused.reason(), reason, "{refused}");
        assert_eq!(
            refused.fields().first().map(|(name, _)| name.as_str()),
            field
        );
    }
    assert_eq!(platform.readings(id).await, 4, "a refusal is no reading");
}

#[tokio::test]
async fn a_serial_log_is_followed_until_the_vm_is_gone_and_read_after_it() {
    let platform = Platform::start().await;
    let world = &platform.world;
    let created = platform.create(good("web"), "web").await.expect("created");
    let id: Uuid = created.id.parse().expect("a uuid");
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    world.host.print(id, "booted\n");
    let mut stream = platform.serial_log(of(id, true, "")).await.expect("opened");
    let first = next(&mut stream).await;
    let Some(Event::Part(part)) = first.event else {
        panic!("{first:?}");
    };
    assert_eq!(part.data, b"booted\n");
    let synced = next(&mut stream).await;
    assert!(matches!(synced.event, Some(Event::Synced(_))), "{synced:?}");
    world.host.print(id, "shutting down\n");
    platform
        .release(&id.to_string(), "end")
        .await
        .expect("accepted");
    let (text, token) = rest(&mut stream).await;
    assert_eq!(text, "shutting down\n");
    world.until_state(id, "released").await;
    world.until_idle(id).await;

    assert_eq!(
        platform.serial_text(of(id, true, "")).await.0,
        "booted\nshutting down\n"
    );
    assert_eq!(platform.serial_text(of(id, false, &token)).await.0, "");
    // its time is over
    world.host.forget_serial_log(id);
    let gone = platform.serial_log(of(id, false, "")).await;
    let gone = gone.expect_err("gone");
    assert_eq!(gone.reason(), ErrorReason::SerialLogUnavailable);
    assert!(!gone.message().contains("this host"), "{gone}");

    world.host_gone().await;
    let away = platform.serial_log(of(id, false, "")).await;
    assert_eq!(
        away.expect_err("away").reason(),
        ErrorReason::HostUnreachable
    );
}
