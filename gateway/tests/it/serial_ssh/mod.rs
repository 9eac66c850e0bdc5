//! Serial logs by SSH, as OpenSSH's own client shows them: who reads, who is refused and how, and what ends it.
mod client;
mod limits;

use reqwest::Method;
use serde_json::{Value, json};

use crate::upstream::{FOREIGN, NO_LOG};
use crate::world::reason;
use client::{Ended, VM, start};

const LOST: &str = "Your access has changed. Connect again to see what you still may.\n";

fn refused(name: &str) -> Ended {
    Ended {
        status: Some(255),
        output: String::new(),
        errors: format!("{name}@127.0.0.1: Permission denied (publickey).\n"),
    }
}

#[tokio::test]
async fn p10_a_reader_sees_what_was_printed_and_what_is_by_the_key_it_has_registered() {
    let setup = start(|_, _| {}).await;
    let (world, key) = (&setup.world, setup.key_of("mia").await);
    world.record.clear();
    world.record.print(b"boot one\n");
    let mut ssh = setup.reads(&key);
    ssh.until("boot one\n").await;
    world.record.print(b"live \xc3");
    ssh.until("live ").await;
    world.record.print(b"\xbc two\n");
    ssh.until("live \u{fc} two\n").await;
    // the call is that of a reader over HTTP
    let seen = world.record.all();
    let [call] = &seen[..] else {
        panic!("one call: {seen:?}");
    };
    assert_eq!(call.rpc, "read serial log");
    assert_eq!(call.caller.principal, "user:mia");
    assert_eq!(call.caller.projects, [world.seeded.project_id]);
    assert!(!call.has_deadline, "a stream has no deadline");
    assert_eq!(
        (&*call.origin.address, &*call.origin.user_agent),
        ("127.0.0.1", "ssh")
    );
    for part in [&*VM.to_string(), "follow: true", "tail_lines: Some(1000)"] {
        assert!(call.message.contains(part), "{part}: {}", call.message);
    }
    world.record.end_vms();
    let ended = ssh.ended().await;
    assert_eq!(ended.status, Some(0), "{ended:?}");
    assert_eq!(ended.output, "boot one\nlive \u{fc} two\n");
    assert_eq!(
        ended.errors,
        "The VM is gone. This is the end of its serial log.\n"
    );
    world.record.until_open(0).await;
}

#[tokio::test]
async fn f_09_strangers_and_whatever_is_foreign_or_absent_get_one_refusal() {
    let setup = start(|_, _| {}).await;
    let (world, key) = (&setup.world, setup.key_of("mia").await);
    let (strange, of_project) = (setup.key("strange"), setup.key("project"));
    let keys = format!("/api/v1/projects/{}/ssh-keys", world.seeded.project_id);
    let line = of_project
        .private
        .public_key()
        .to_openssh()
        .expect("a line");
    let body = json!({ "name": "team", "public_key": line });
    world.made("mia", &keys, body).await;
    let vm = VM.to_string();
    let foreign = FOREIGN.to_string();
    for (key, name) in [
        (&strange, &*vm),
        (&of_project, &*vm),
        (&key, &*foreign),
        (&key, "web"),
        (&key, "user:mia"),
        (&key, "../../v1/skus"),
    ] {
        let ended = setup.ssh(key, name, &["-T"], &[]).ended().await;
        assert_eq!(ended, refused(name), "{name}");
    }
    let password = [
        "-T",
        "-o",
        "PreferredAuthentications=password,keyboard-interactive",
    ];
    let ended = setup.ssh(&key, &vm, &password, &[]).ended().await;
    assert_eq!(ended, refused(&vm));
    assert_eq!(world.record.open(), 0, "nothing was opened");
}

#[tokio::test]
async fn f_09_no_other_method_signs_in_and_a_public_key_alone_tells_nothing() {
    let setup = start(|_, _| {}).await;
    let key = setup.key_of("mia").await;
    let strange = setup.key("strange");
    let mut session = limits::connected(&setup).await;
    let vm = VM.to_string();
    let tried = session
        .authenticate_password(&vm, "secret")
        .await
        .expect("an answer");
    assert_eq!(limits::left(&tried), [russh::MethodKind::PublicKey]);
    let tried = session.authenticate_none(&vm).await.expect("an answer");
    assert_eq!(limits::left(&tried), [russh::MethodKind::PublicKey]);
    // whoever has the public key alone sees no difference to one that nobody has registered
    for key in [&key, &strange] {
        let lone = limits::Lone(key.private.public_key().clone());
        let tried = limits::offered(&setup, &vm, lone).await;
        assert!(tried.asked_to_sign, "{tried:?}");
        assert!(!tried.is_in, "{tried:?}");
    }
}

#[tokio::test]
async fn p10_a_viewer_is_told_what_it_lacks_on_record_and_reads_while_it_has_a_grant() {
    let setup = start(|_, _| {}).await;
    let (world, key) = (&setup.world, setup.key_of("vera").await);
    let ended = setup.reads(&key).ended().await;
    assert_eq!(ended.status, Some(1), "{ended:?}");
    let (_, http) = world
        .call(
            Method::GET,
            &format!("/api/v1/allocations/{VM}/serial-log"),
            "vera",
        )
        .await;
    assert_eq!(reason(&http), "PERMISSION_DENIED");
    let message = http["error"]["message"].as_str().expect("a message");
    assert_eq!(ended.errors, format!("{message}\n"), "as over HTTP");
    assert_eq!(setup.denials("user:vera").await, 2);

    let grants = format!(
        "/api/v1/projects/{}/allocation-grants",
        world.seeded.project_id
    );
    let grant =
        json!({ "allocation_id": VM, "principal": "user:vera", "permission": "serial_log" });
    let made = world.made("demo", &grants, grant).await;
    world.record.print(b"boot\n");
    let mut ssh = setup.reads(&key);
    ssh.until("boot\n").await;
    let one = format!("{grants}/{}", made["id"].as_str().expect("an id"));
    world.send("demo", Method::DELETE, &one, Value::Null).await;
    let ended = ssh.ended().await;
    assert_eq!((ended.status, &*ended.errors), (Some(1), LOST));
    world.record.until_open(0).await;
}

/// Denials count as over HTTP, and above the limit none is put on record.
#[tokio::test]
async fn who_is_denied_again_and_again_is_limited() {
    let setup = start(|config, _| config.rates.read_per_principal = 3).await;
    let key = setup.key_of("vera").await;
    let mut denied = 0;
    loop {
        let ended = setup.reads(&key).ended().await;
        if ended.errors.starts_with("Too many requests of yours") {
            break;
        }
        denied += 1;
        assert!(denied < 10, "{ended:?}");
    }
    assert!(denied >= 3, "{denied}");
    assert_eq!(setup.denials("user:vera").await, denied);
}

#[tokio::test]
async fn p10_a_key_that_is_removed_takes_what_it_opened_with_it() {
    let setup = start(|_, _| {}).await;
    let (world, key) = (&setup.world, setup.key("mia"));
    let ids = [
        setup.register("mia", "laptop", &key).await,
        setup.register("mia", "same", &key).await,
    ];
    let remove = async |id: &str| {
        let target = format!("/api/v1/ssh-keys/{id}");
        let (status, body) = world
            .send("mia", Method::DELETE, &target, Value::Null)
            .await;
        assert_eq!(status, 200, "{body}");
    };
    world.record.print(b"boot\n");
    let mut ssh = setup.reads(&key);
    ssh.until("boot\n").await;
    // it is registered still, by its other name
    remove(&ids[0]).await;
    world.record.print(b"on\n");
    ssh.until("on\n").await;
    remove(&ids[1]).await;
    let ended = ssh.ended().await;
    assert_eq!((ended.status, &*ended.errors), (Some(1), LOST));
    let ended = setup.reads(&key).ended().await;
    assert_eq!(ended, refused(&VM.to_string()));
}

#[tokio::test]
async fn p10_who_is_disabled_stops_reading_and_is_refused_on_record() {
    let setup = start(|_, _| {}).await;
    let (world, key) = (&setup.world, setup.key_of("mia").await);
    world.record.print(b"boot\n");
    let mut ssh = setup.reads(&key);
    ssh.until("boot\n").await;
    sqlx::query("UPDATE edge.principals SET disable_time = now() WHERE name = 'user:mia'")
        .execute(&world.db.owner_pool().await)
        .await
        .expect("disabled");
    let ended = ssh.ended().await;
    assert_eq!((ended.status, &*ended.errors), (Some(1), LOST));
    let ended = setup.reads(&key).ended().await;
    assert_eq!(ended, refused(&VM.to_string()));
    let identity = format!("{} mia", crate::world::ISSUER);
    assert_eq!(setup.denials(&identity).await, 1);
}

#[tokio::test]
async fn a_key_of_several_people_reads_what_one_of_them_may() {
    let setup = start(|_, _| {}).await;
    let (world, key) = (&setup.world, setup.key_of("vera").await);
    setup.register("mia", "shared", &key).await;
    world.record.clear();
    world.record.print(b"boot\n");
    let mut ssh = setup.reads(&key);
    ssh.until("boot\n").await;
    let readers = world.record.all();
    let readers = readers.iter().map(|call| &*call.caller.principal);
    assert_eq!(readers.collect::<Vec<_>>(), ["user:mia"]);
    assert_eq!(setup.denials("user:vera").await, 1, "its key has asked");
}

#[tokio::test]
async fn a_terminal_gets_text_and_gives_only_the_key_that_leaves() {
    let setup = start(|_, _| {}).await;
    let (world, key) = (&setup.world, setup.key_of("mia").await);
    world
        .record
        .print(b"a\r\n\x1b]0;title\x07\tb\x9b31m\xc2\x9b\n");
    for leaves in [b"\x03", b"\x04"] {
        let mut ssh = setup.ssh(&key, &VM.to_string(), &["-tt"], &[]);
        let text = "a\r\n]0;title\tb\u{fffd}31m\r\n";
        ssh.until(text).await;
        ssh.types(b"reboot\r").await;
        ssh.types(leaves).await;
        let ended = ssh.ended().await;
        assert_eq!((ended.status, &*ended.output), (Some(0), text));
        let hint = "Serial log, to read only. Press Ctrl-C to leave.\n";
        assert!(ended.errors.starts_with(hint), "{ended:?}");
    }
    world.record.until_open(0).await;
}

#[tokio::test]
async fn what_is_in_the_way_is_said_as_it_is() {
    let mut setup = start(|config, _| config.max_streams_per_principal = 1).await;
    let key = setup.key_of("mia").await;
    let ended = setup
        .ssh(&key, &NO_LOG.to_string(), &["-T"], &[])
        .ended()
        .await;
    let none = "The allocation has no serial log.\n";
    assert_eq!((ended.status, &*ended.errors), (Some(1), none));

    setup.world.record.print(b"boot\n");
    let mut first = setup.reads(&key);
    first.until("boot\n").await;
    let ended = setup.reads(&key).ended().await;
    let full = "Too many streams of yours are open at once. Try again in a moment.\n";
    assert_eq!((ended.status, &*ended.errors), (Some(1), full));

    setup.world.service.kill();
    let ended = first.ended().await;
    let broken = "A part of the platform does not answer right now. Connect again in a moment.\n";
    assert_eq!((ended.status, &*ended.errors), (Some(1), broken));
}

#[tokio::test]
async fn a_reader_is_told_when_the_gateway_ends() {
    let mut setup = start(|_, _| {}).await;
    let key = setup.key_of("mia").await;
    setup.world.record.print(b"login: ");
    let mut ssh = setup.reads(&key);
    ssh.until("login: ").await;
    let silent = setup.says(b"SSH-2.0-silent\r\n").await;
    setup.world.shutdown.cancel();
    let ended = ssh.ended().await;
    let restarts = "\nThe gateway restarts. Connect again in a moment.\n";
    assert_eq!((ended.status, &*ended.errors), (Some(1), restarts));
    while let Some(ended) = setup.world.running.join_next().await {
        ended.expect("no panic").expect("a clean end");
    }
    drop(silent);
}
