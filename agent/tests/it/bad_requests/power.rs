//! Changes of power, shells and tunnels.
use gpuaas_proto::gpuaas::agent::v1 as pb;
use tonic::{Response, Status};

use super::world::{KEY, World, shell};
use super::{Change, invalid, refused, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_of_a_change_of_power_or_of_a_shell_is_believed() {
    type Row = (&'static str, &'static str, fn(&mut pb::PowerRequest));
    let rows: &[Row] = &[
        ("root", "guest_user", |request| {
            request.guest_user = "root".into();
        }),
        ("ten thousand host keys", "ssh_host_keys", |request| {
            request.ssh_host_keys = vec![KEY.into(); 10_000];
        }),
        ("a host key that is none", "ssh_host_keys", |request| {
            request.ssh_host_keys = vec!["../../id_ed25519".into()];
        }),
    ];
    let of_rescue: &[Row] = &[
        ("a slug that leads out", "image.slug", |request| {
            request.rescue_image.as_mut().expect("an image").slug = "../../up".into();
        }),
        ("a digest that leads out", "digest", |request| {
            request.rescue_image.as_mut().expect("an image").digest = "sha256:../../up".into();
        }),
        ("a host name of XML", "hostname", |request| {
            request.hostname = "<a/>".into();
        }),
        ("ten thousand keys", "ssh_public_keys", |request| {
            request.ssh_public_keys = vec![KEY.into(); 10_000];
        }),
    ];
    let world = World::new().await;
    let before = world.snapshot().await;
    for (what, field, change) in rows {
        let mut request = world.power();
        change(&mut request);
        for answer in [
            world.vms().start(request.clone()).await,
            world.vms().reboot(request.clone()).await,
            world.vms().rescue(request).await,
        ] {
            refused(what, answer, invalid(field));
        }
    }
    for (what, field, change) in of_rescue {
        let mut request = world.power();
        change(&mut request);
        refused(what, world.vms().rescue(request).await, invalid(field));
    }
    for (field, change) in shell_texts() {
        let mut start = shell();
        change(&mut start, "../<a/>\0");
        let answer = opened(&world, start).await;
        refused(field, answer.map(Response::new), invalid(field));
    }
    assert_eq!(world.snapshot().await, before);
}

/// The first answer to the start of a shell or tunnel.
async fn opened(
    world: &World,
    start: pb::TerminalStart,
) -> Result<Option<pb::OpenResponse>, Status> {
    let first = pb::OpenRequest {
        message: Some(pb::open_request::Message::Start(start)),
    };
    let stream = world.terminal().open(tokio_stream::once(first)).await;
    stream?.get_mut().message().await
}

/// A ledger, or whoever speaks for it, that names another port of a VM is not followed there.
#[tokio::test]
async fn p6_a_shell_or_tunnel_leads_to_no_other_port_than_ssh() {
    let world = World::new().await;
    let before = world.snapshot().await;
    for port in [1, 21, 23, 2222, 5432, 65_535] {
        let there = || pb::TerminalStart {
            target_port: port,
            ..shell()
        };
        let tunnel = pb::TerminalStart {
            ssh_tunnel: true,
            user: String::new(),
            ssh_host_keys: Vec::new(),
            size: None,
            term: String::new(),
            ..there()
        };
        for start in [there(), tunnel] {
            let answer = opened(&world, start).await;
            refused(
                &port.to_string(),
                answer.map(Response::new),
                invalid("target_port"),
            );
        }
    }
    assert_eq!(world.snapshot().await, before);
}

fn shell_texts() -> Vec<(&'static str, Change<pb::TerminalStart>)> {
    vec![
        text("session_id", |start: &mut pb::TerminalStart, bad| {
            start.session_id = bad.into();
        }),
        text("allocation_id", |start: &mut pb::TerminalStart, bad| {
            start.allocation_id = bad.into();
        }),
        text("target_host", |start: &mut pb::TerminalStart, bad| {
            start.target_host = bad.into();
        }),
        text("user", |start: &mut pb::TerminalStart, bad| {
            start.user = bad.into();
        }),
        text("term", |start: &mut pb::TerminalStart, bad| {
            start.term = bad.into();
        }),
        text("ssh_host_keys", |start: &mut pb::TerminalStart, bad| {
            start.ssh_host_keys = vec![bad.into()];
        }),
    ]
}
