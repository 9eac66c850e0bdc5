//! What else an SSH client asks for, and clients that say nothing, take nothing or want everything.
use std::sync::Arc;
use std::time::Duration;

use gpuaas_dev::until::until;
use russh::client::{self, AuthResult, Handle};
use russh::keys::{PrivateKeyWithHashAlg, PublicKey, PublicKeyOrCertificate};
use russh::{ChannelMsg, MethodKind};
use tokio::io::AsyncReadExt as _;

use super::client::{Key, Setup, VM, start};

/// Longest wait for the gateway to let somebody go.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A client that believes every host.
pub struct Trusting;

impl client::Handler for Trusting {
    type Error = russh::Error;

    async fn check_server_key(&mut self, _: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        Ok(true)
    }

    async fn disconnected(
        &mut self,
        reason: client::DisconnectReason<Self::Error>,
    ) -> Result<(), Self::Error> {
        match reason {
            client::DisconnectReason::ReceivedDisconnect(_) => Ok(()),
            client::DisconnectReason::Error(error) => Err(error),
        }
    }
}

pub async fn connected(setup: &Setup) -> Handle<Trusting> {
    let config = Arc::new(client::Config::default());
    let connected = client::connect(config, setup.address, Trusting).await;
    connected.expect("connected")
}

async fn signed_in(setup: &Setup, key: &Key, config: client::Config) -> Handle<Trusting> {
    let session = try_sign_in(setup, key, config).await;
    session.expect("signed in")
}

/// Nothing when it is let go before.
async fn try_sign_in(setup: &Setup, key: &Key, config: client::Config) -> Option<Handle<Trusting>> {
    let connected = client::connect(Arc::new(config), setup.address, Trusting).await;
    let mut session = connected.ok()?;
    let key = PrivateKeyWithHashAlg::new(Arc::new(key.private.clone()), None);
    let tried = session.authenticate_publickey(VM.to_string(), key).await;
    tried.is_ok_and(|tried| tried.success()).then_some(session)
}

/// The methods that are left after a refusal.
pub fn left(tried: &AuthResult) -> Vec<MethodKind> {
    match tried {
        AuthResult::Success => panic!("it is refused"),
        AuthResult::Failure {
            remaining_methods, ..
        } => remaining_methods.to_vec(),
    }
}

/// Who has a public key, and cannot sign.
pub struct Lone(pub PublicKey);

/// What came of a public key alone.
#[derive(Debug)]
pub struct Offered {
    pub asked_to_sign: bool,
    pub is_in: bool,
}

#[derive(Debug)]
struct Unsigned;

impl From<russh::SendError> for Unsigned {
    fn from(_: russh::SendError) -> Self {
        Self
    }
}

struct NoSigner<'a>(&'a mut bool);

impl russh::Signer for NoSigner<'_> {
    type Error = Unsigned;

    async fn auth_sign(
        &mut self,
        _: &russh::keys::agent::AgentIdentity,
        _: Option<russh::keys::HashAlg>,
        _: Vec<u8>,
    ) -> Result<Vec<u8>, Self::Error> {
        *self.0 = true;
        Err(Unsigned)
    }
}

/// Offers a public key.
pub async fn offered(setup: &Setup, name: &str, lone: Lone) -> Offered {
    let mut session = connected(setup).await;
    let mut asked_to_sign = false;
    let mut signer = NoSigner(&mut asked_to_sign);
    let tried = session
        .authenticate_publickey_with(name, lone.0, None, &mut signer)
        .await;
    let is_in = tried.is_ok_and(|tried| tried.success());
    Offered {
        asked_to_sign,
        is_in,
    }
}

#[tokio::test]
async fn nothing_but_the_log_goes_through() {
    let setup = start(|_, _| {}).await;
    let key = setup.key_of("mia").await;
    let vm = VM.to_string();
    let only = "Only the serial log is shown here: connect without a command. To run one in the VM, use gpuaas ssh.\n";
    for (options, command) in [
        (&["-T"][..], &["cat", "/etc/passwd"][..]),
        (&["-s"][..], &["sftp"][..]),
    ] {
        let ended = setup.ssh(&key, &vm, options, command).ended().await;
        assert_eq!((ended.status, &*ended.errors), (Some(1), only));
        assert_eq!(ended.output, "");
    }
    let port = setup.address.port();
    let metrics = setup.world.metrics.trim_start_matches("http://");
    for (options, said) in [
        (&["-W", metrics][..], "administratively prohibited"),
        (
            &[
                "-T",
                "-R",
                "0:127.0.0.1:1",
                "-o",
                "ExitOnForwardFailure=yes",
            ][..],
            "remote port forwarding failed",
        ),
    ] {
        let ended = setup.ssh(&key, &vm, options, &[]).ended().await;
        assert_eq!(
            (ended.status, &*ended.output),
            (Some(255), ""),
            "{port} {ended:?}"
        );
        assert!(ended.errors.contains(said), "{ended:?}");
    }
}

#[tokio::test]
async fn one_session_without_agent_and_x11_is_all_there_is() {
    let setup = start(|_, _| {}).await;
    let key = setup.key_of("mia").await;
    let session = signed_in(&setup, &key, client::Config::default()).await;
    let mut channel = session.channel_open_session().await.expect("a session");
    session
        .channel_open_session()
        .await
        .expect_err("a second one");
    let direct = session.channel_open_direct_tcpip("127.0.0.1", 1, "127.0.0.1", 1);
    direct.await.expect_err("a connection");
    let socket = session.channel_open_direct_streamlocal("/run/docker.sock");
    socket.await.expect_err("a connection");
    channel
        .request_pty(true, "xterm", 80, 24, 0, 0, &[])
        .await
        .expect("asked");
    channel
        .set_env(true, "LANG", "C.UTF-8")
        .await
        .expect("asked");
    channel.agent_forward(true).await.expect("asked");
    channel
        .request_x11(true, false, "MIT-MAGIC-COOKIE-1", "00", 0)
        .await
        .expect("asked");
    channel.request_shell(true).await.expect("asked");
    channel.request_shell(true).await.expect("asked");
    let mut answers = Vec::new();
    while answers.len() < 6 {
        match channel.wait().await.expect("open") {
            ChannelMsg::Success => answers.push(true),
            ChannelMsg::Failure => answers.push(false),
            _ => {}
        }
    }
    assert_eq!(answers, [true, true, false, false, true, false]);
}

#[tokio::test]
async fn p12_readers_of_one_address_take_nobody_elses_places() {
    let setup = start(|_, ssh| ssh.max_connections_per_peer = 2).await;
    let key = setup.key_of("mia").await;
    setup.world.record.print(b"boot\n");
    // who says nothing makes place
    let _silent = [
        setup.says(b"").await,
        setup.says(b"SSH-2.0-silent\r\n").await,
    ];
    let mut readers = [setup.reads(&key), setup.reads(&key)];
    for reader in &mut readers {
        reader.until("boot\n").await;
    }
    let third = setup.reads(&key).ended().await;
    assert_eq!((third.status, &*third.output), (Some(255), ""), "{third:?}");
    assert!(!third.errors.contains("Permission denied"), "{third:?}");
    let elsewhere = ["-T", "-b", "127.0.0.2"];
    let mut other = setup.ssh(&key, &VM.to_string(), &elsewhere, &[]);
    other.until("boot\n").await;
    let metrics = reqwest::get(format!("{}/metrics", setup.world.metrics)).await;
    let metrics = metrics.expect("metrics").text().await.expect("text");
    let counted = metrics.lines().any(|line| {
        line.starts_with("edge_limited_total{")
            && line.contains("limit=\"peer\"")
            && line.contains("what=\"connections\"")
    });
    assert!(counted, "{metrics}");
}

#[tokio::test]
async fn p12_who_never_signs_in_or_asks_for_nothing_is_let_go() {
    let setup = start(|_, ssh| ssh.sign_in_timeout_seconds = 1).await;
    for opening in [&b""[..], b"SSH-2.0-silent\r\n", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut silent = setup.says(opening).await;
        let mut rest = Vec::new();
        let closed = silent.read_to_end(&mut rest);
        let closed = tokio::time::timeout(TIMEOUT, closed).await;
        assert!(closed.is_ok(), "{opening:?} is let go by the gateway");
    }
    let key = setup.key_of("mia").await;
    // on a slow machine the time may be over before
    let session = loop {
        if let Some(session) = try_sign_in(&setup, &key, client::Config::default()).await {
            break session;
        }
    };
    let ended = tokio::time::timeout(TIMEOUT, session).await;
    assert!(
        ended.is_ok(),
        "who has signed in and asks for nothing is let go"
    );
    setup.world.record.until_open(0).await;
}

#[tokio::test]
async fn p12_a_client_tries_so_many_keys_and_no_more() {
    let setup = start(|_, _| {}).await;
    let mut session = connected(&setup).await;
    for turn in 0.. {
        let key = setup.key(&format!("key-{turn}"));
        let key = PrivateKeyWithHashAlg::new(Arc::new(key.private), None);
        let tried = session.authenticate_publickey(VM.to_string(), key).await;
        match tried {
            Ok(tried) => assert!(!tried.success(), "nobody has registered it"),
            Err(_) => break,
        }
    }
    let metrics = reqwest::get(format!("{}/metrics", setup.world.metrics)).await;
    let metrics = metrics.expect("metrics").text().await.expect("text");
    let counted = metrics.lines().find(|line| {
        line.starts_with("edge_denied_total{") && line.contains("reason=\"CREDENTIAL_INVALID\"")
    });
    assert!(
        counted.is_some_and(|line| line.ends_with(" 7")),
        "{metrics}"
    );
}

#[tokio::test]
async fn p12_a_reader_that_takes_nothing_holds_the_service_up_and_ends_with_its_access() {
    let setup = start(|_, _| {}).await;
    let (world, key) = (&setup.world, setup.key("mia"));
    let id = setup.register("mia", "laptop", &key).await;
    let little = client::Config {
        window_size: 32 << 10,
        ..client::Config::default()
    };
    let session = signed_in(&setup, &key, little).await;
    let channel = session.channel_open_session().await.expect("a session");
    world.record.print(&[b'x'; 16 << 20]);
    channel.request_shell(true).await.expect("asked");
    until("a service that is held up", TIMEOUT, async || {
        world.record.held_up().then_some(())
    })
    .await;
    let target = format!("/api/v1/ssh-keys/{id}");
    let (status, _) = world
        .send(
            "mia",
            reqwest::Method::DELETE,
            &target,
            serde_json::Value::Null,
        )
        .await;
    assert_eq!(status, 200);
    world.record.until_open(0).await;
    drop((channel, session));
}

/// An exchange in a group of large integers costs the server a second of its processor, and a stranger nothing.
#[tokio::test]
async fn p12_strangers_get_no_costly_key_exchange() {
    let setup = start(|_, _| {}).await;
    let key = setup.key_of("mia").await;
    for costly in [
        "diffie-hellman-group18-sha512",
        "diffie-hellman-group-exchange-sha256",
    ] {
        let only = format!("KexAlgorithms={costly}");
        let ssh = setup.ssh(&key, &VM.to_string(), &["-T", "-o", &only], &[]);
        let ended = ssh.ended().await;
        assert_eq!(ended.status, Some(255), "{ended:?}");
        let (why, offer) = ended.errors.split_once("Their offer:").expect("its offer");
        assert!(why.contains("no matching key exchange method"), "{why}");
        assert!(offer.contains("curve25519-sha256"), "{offer}");
        for other in ["diffie-hellman", "ecdh-sha2"] {
            assert!(!offer.contains(other), "{offer}");
        }
    }
}
