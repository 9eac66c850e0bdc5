//! The service over real sockets: addresses of the loopback network are those of VMs.
use std::net::SocketAddr;
use std::path::Path;

use async_trait::async_trait;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use uuid::Uuid;

use super::*;
use crate::host::clock::BootMoment;
use crate::ids::{AllocationId, LeaseId, OperationId, SlotId, Token};
use crate::journal::{Kind, NewOperation};
use crate::lease::{LeaseSpec, Purpose};

const ONE: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 10);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 11);
const NOBODY: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 12);
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAmxc03cp2l5BJE4mlJolCBwbNYywLgRgatR5QrcvVSv";
const PUT_TOKEN: &str = "PUT /latest/api/token HTTP/1.1\r\nHost: metadata\r\n";
const ID: &str = "/latest/meta-data/instance-id";

fn vm(number: u128) -> AllocationId {
    AllocationId(Uuid::from_u128(
        0x0192_f0c1_aaaa_7bbb_8ccc_0000_0000_0000 + number,
    ))
}

/// The control plane as a host sees it.
struct ControlPlane;

#[async_trait]
impl Identity for ControlPlane {
    async fn issue(&self, of: AllocationId, audience: &str) -> Result<String, Refused> {
        match audience {
            "refused" => Err(Refused::Decided),
            "away" => Err(Refused::NotNow),
            _ => Ok(format!("{of} for {audience}")),
        }
    }
}

struct Host {
    dhcp: tempfile::TempDir,
    journal: Arc<Journal>,
    at: SocketAddr,
    stop: CancellationToken,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What an answer says.
struct Heard {
    status: u16,
    headers: String,
    body: String,
}

impl Host {
    /// A host with two VMs.
    fn start(limits: Limits) -> Self {
        let dhcp = tempfile::tempdir().unwrap();
        let journal = Arc::new(Journal::in_memory().unwrap());
        for (number, address) in [(1, ONE), (2, OTHER)] {
            reserve(dhcp.path(), vm(number), address);
            launch(&journal, number);
        }
        let listener = listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (at, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let settings = format!(
            "hosts_dir = {:?}\nleases_file = 'none'\npid_file = 'none'",
            dhcp.path()
        );
        let files = Dhcp::new(toml::from_str(&settings).unwrap());
        let metadata = Metadata::new(files, Arc::clone(&journal), Box::new(ControlPlane));
        tokio::spawn(metadata.serve(listener, limits, stop.clone()));
        Self {
            dhcp,
            journal,
            at,
            stop,
        }
    }

    async fn connect(&self, from: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddrV4::new(from, 0).into()).unwrap();
        socket.connect(self.at).await.unwrap()
    }

    async fn send(&self, from: Ipv4Addr, request: &str) -> Heard {
        let mut stream = self.connect(from).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        hear(stream).await
    }

    async fn token(&self, from: Ipv4Addr, seconds: u64) -> String {
        let ttl = format!("{PUT_TOKEN}X-aws-ec2-metadata-token-ttl-seconds: {seconds}\r\n\r\n");
        let heard = self.send(from, &ttl).await;
        assert_eq!(heard.status, 200);
        assert!(heard.headers.contains(&format!("-ttl-seconds: {seconds}")));
        heard.body
    }

    async fn get(&self, from: Ipv4Addr, path: &str, token: &str) -> Heard {
        let token = format!("X-aws-ec2-metadata-token: {token}\r\n");
        self.send(
            from,
            &format!("GET {path} HTTP/1.1\r\nHost: metadata\r\n{token}\r\n"),
        )
        .await
    }
}

async fn hear(mut stream: TcpStream) -> Heard {
    let mut text = Vec::new();
    // a peer that closes with bytes of ours unread resets, after its answer
    let _closed = stream.read_to_end(&mut text).await;
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Heard {
        status: status.unwrap_or_default(),
        headers: head.to_lowercase(),
        body: body.to_owned(),
    }
}

fn reserve(folder: &Path, of: AllocationId, address: Ipv4Addr) {
    let file = folder.join(format!("gpuaas-{}.conf", of.vm_name()));
    let last = address.octets()[3];
    std::fs::write(file, format!("52:54:00:10:00:{last:02x},{address}\n")).unwrap();
}

fn now() -> BootMoment {
    BootMoment {
        boot_id: "boot".into(),
        nanos: 1,
    }
}

const TOKEN_OF_SLOT: Token = Token {
    cell_epoch: 1,
    slot_generation: 1,
    workflow_epoch: 1,
};

/// Launches a VM in its own slot, as far as the journal knows.
fn launch(journal: &Journal, number: u128) {
    let slot = SlotId(Uuid::from_u128(number));
    journal.restore_fence(slot, Token::default()).unwrap();
    let spec = LeaseSpec {
        allocation: vm(number),
        slots: vec![(slot, TOKEN_OF_SLOT)].try_into().unwrap(),
        devices: Vec::new(),
        replaced: Vec::new(),
        purpose: Purpose::Provision,
    };
    let lease = LeaseId(Uuid::from_u128(number));
    let expires = now().plus(Duration::from_secs(60));
    let (request, plan) = <(pb::AcquireLeaseRequest, pb::BundlePlan)>::default();
    let granted = journal.grant_lease(&spec, lease, &expires, &now(), &request, &plan);
    assert!(granted.unwrap().is_ok());
    let request = pb::ProvisionRequest {
        hostname: format!("vm-{number}"),
        region_code: "eu-north".into(),
        ssh_public_keys: vec![format!("{KEY} me at home")],
        user_data: if number == 1 {
            String::new()
        } else {
            format!("#!/bin/sh\n: {number}\n")
        },
        ..pb::ProvisionRequest::default()
    };
    operate(
        journal,
        number,
        Kind::Provision,
        request.encode_to_vec(),
        &[],
    );
}

/// An operation that has ended long ago.
fn operate(journal: &Journal, of: u128, kind: Kind, request: Vec<u8>, frees: &[(SlotId, Token)]) {
    let id = OperationId(Uuid::new_v4());
    let new = NewOperation {
        id,
        kind,
        allocation: vm(of),
        request,
        request_hash: String::new(),
        lease: None,
        lease_request: pb::AcquireLeaseRequest::default(),
        plan: pb::BundlePlan::default(),
        traceparent: String::new(),
        deadline: now(),
        started_ms: 0,
        steps: Vec::new(),
    };
    journal.start_operation(&new).unwrap();
    let result = pb::HostOperation::default();
    journal.succeed(id, &result, 1, frees).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn p11_a_vm_reads_itself_with_a_token_and_nothing_without() {
    let host = Host::start(Limits::default());
    let token = host.token(ONE, 60).await;
    let heard = host.get(ONE, ID, &token).await;
    assert_eq!((heard.status, heard.body), (200, vm(1).to_string()));
    assert!(heard.headers.contains("cache-control: no-store"));
    let mut said_all = host.connect(ONE).await;
    let request =
        format!("GET {ID} HTTP/1.1\r\nHost: m\r\nX-aws-ec2-metadata-token: {token}\r\n\r\n");
    said_all.write_all(request.as_bytes()).await.unwrap();
    said_all.shutdown().await.unwrap();
    assert_eq!(hear(said_all).await.body, vm(1).to_string());
    let key = "/latest/meta-data/public-keys/0/openssh-key";
    assert_eq!(host.get(ONE, key, &token).await.body, KEY);
    let region = "/latest/meta-data/placement/region";
    assert_eq!(host.get(ONE, region, &token).await.body, "eu-north");
    let document = host.get(ONE, "/latest/instance", &token).await;
    assert!(document.headers.contains("content-type: application/json"));
    let document: serde_json::Value = serde_json::from_str(&document.body).unwrap();
    assert_eq!(document["hostname"], "vm-1");
    assert_eq!(host.get(ONE, "/latest/user-data", &token).await.status, 404);

    let bare = "HTTP/1.1\r\nHost: metadata\r\n\r\n";
    for path in [ID, "/", "/latest/none", "/latest/identity?audience=a"] {
        let heard = host.send(ONE, &format!("GET {path} {bare}")).await;
        assert_eq!((heard.status, heard.body.as_str()), (401, ""), "{path}");
        assert_eq!(host.get(ONE, path, "wrong").await.status, 401, "{path}");
    }
    // a token is of its VM, and of nobody who has no reservation
    let other = host.token(OTHER, 60).await;
    assert_eq!(host.get(OTHER, ID, &other).await.body, vm(2).to_string());
    let data = host.get(OTHER, "/latest/user-data", &other).await;
    assert_eq!((data.status, data.body.as_str()), (200, "#!/bin/sh\n: 2\n"));
    assert_eq!(
        host.get(OTHER, "/latest/user-data", &token).await.status,
        401
    );
    assert_eq!(host.get(OTHER, ID, &token).await.status, 401);
    assert_eq!(host.get(ONE, ID, &other).await.status, 401);
    for heard in [
        host.get(NOBODY, ID, &token).await,
        host.send(NOBODY, &format!("{PUT_TOKEN}\r\n")).await,
    ] {
        assert_eq!((heard.status, heard.body.as_str()), (404, ""));
    }
    // it ends with the VM
    let file = format!("gpuaas-{}.conf", vm(1).vm_name());
    std::fs::remove_file(host.dhcp.path().join(file)).unwrap();
    assert_eq!(host.get(ONE, ID, &token).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_ends_with_its_time() {
    let host = Host::start(Limits::default());
    let begin = std::time::Instant::now();
    let token = host.token(ONE, 1).await;
    loop {
        let heard = host.get(ONE, ID, &token).await;
        let passed = begin.elapsed();
        if heard.status == 401 {
            assert!(passed >= Duration::from_millis(900), "{passed:?}");
            return;
        }
        assert!(passed < Duration::from_secs(10), "it lives on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_get_their_refusal() {
    let host = Host::start(Limits::default());
    let token = host.token(ONE, 21_600).await;
    for ttl in ["0", "21601", "-1", "", "1.5", "99999999999999999999", "a"] {
        let header = format!("X-aws-ec2-metadata-token-ttl-seconds: {ttl}\r\n\r\n");
        let heard = host.send(ONE, &format!("{PUT_TOKEN}{header}")).await;
        assert_eq!(heard.status, 400, "{ttl}");
        assert!(heard.body.contains("must be 1 to 21600"), "{}", heard.body);
    }
    assert_eq!(
        host.send(ONE, &format!("{PUT_TOKEN}\r\n")).await.status,
        400
    );
    let with = format!("HTTP/1.1\r\nHost: m\r\nX-aws-ec2-metadata-token: {token}\r\n");
    for name in ["X-Forwarded-For", "Forwarded", "Via"] {
        let forwarded = format!("{name}: 10.0.0.1\r\n\r\n");
        let ttl = format!("{PUT_TOKEN}X-aws-ec2-metadata-token-ttl-seconds: 60\r\n{forwarded}");
        assert_eq!(host.send(ONE, &ttl).await.status, 403, "{name}");
        let read = format!("GET {ID} {with}{forwarded}");
        assert_eq!(host.send(ONE, &read).await.status, 403, "{name}");
    }
    for method in [
        "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "NONSENSE",
    ] {
        let heard = host.send(ONE, &format!("{method} {ID} {with}\r\n")).await;
        assert_eq!(heard.status, 405, "{method}");
    }
    let heard = host.get(ONE, "/latest/api/token", &token).await;
    assert_eq!(heard.status, 405);
    assert!(heard.headers.contains("allow: put"));
    let head = host.send(ONE, &format!("HEAD {ID} {with}\r\n")).await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    // sizes
    let long = format!("/{}", "a".repeat(4000));
    assert_eq!(host.get(ONE, &long, &token).await.status, 404);
    let longer = format!("/{}", "a".repeat(20_000));
    assert!([414, 431].contains(&host.get(ONE, &longer, &token).await.status));
    let large = format!("GET {ID} {with}X-Large: {}\r\n\r\n", "a".repeat(20_000));
    assert_eq!(host.send(ONE, &large).await.status, 431);
    let many = format!("GET {ID} {with}{}\r\n", "X-Many: a\r\n".repeat(100));
    assert_eq!(host.send(ONE, &many).await.status, 431);
    assert_eq!(host.send(ONE, "nonsense\r\n\r\n").await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_token_is_of_the_vm_that_asks() {
    let host = Host::start(Limits::default());
    let (one, other) = (host.token(ONE, 60).await, host.token(OTHER, 60).await);
    let ask = |audience: &str| format!("/latest/identity?audience={audience}");
    let audience = "https://vault.example:8200/v1";
    let heard = host.get(ONE, &ask(audience), &one).await;
    let expected = format!("{} for {audience}", vm(1));
    assert_eq!((heard.status, heard.body), (200, expected));
    let longest = "a".repeat(200);
    assert_eq!(host.get(OTHER, &ask(&longest), &other).await.status, 200);
    for bad in ["", &"a".repeat(201), "a%20b", "a&audience=b", "a\"b", "a+b"] {
        let heard = host.get(OTHER, &ask(bad), &other).await;
        assert_eq!(heard.status, 400, "{bad}");
    }
    assert_eq!(
        host.get(OTHER, "/latest/identity", &other).await.status,
        400
    );
    assert_eq!(host.get(OTHER, &ask("refused"), &other).await.status, 403);
    assert_eq!(host.get(OTHER, &ask("away"), &other).await.status, 503);
    let mut answered = 1;
    while host.get(ONE, &ask("a"), &one).await.status == 200 {
        answered += 1;
        assert!(answered <= 30, "nothing bounds it");
    }
    assert_eq!(host.get(ONE, &ask("a"), &one).await.status, 429);
    assert_eq!(host.get(OTHER, &ask("a"), &other).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_is_slow_or_has_a_thousand_connections_disturbs_itself_alone() {
    let host = Host::start(Limits {
        connections: 16,
        headers: Duration::from_secs(5),
        connection: Duration::from_secs(6),
    });
    let token = host.token(OTHER, 60).await;
    let mut open = Vec::new();
    for _ in 0..1000 {
        let mut stream = host.connect(ONE).await;
        // those above the bound are closed by now
        let _slow = stream.write_all(b"GET / HTT").await;
        open.push(stream);
    }
    let begin = std::time::Instant::now();
    assert_eq!(host.get(OTHER, ID, &token).await.status, 200);
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
    // each of the slow ones ends by itself, and its place is free again
    for stream in open {
        assert_ne!(hear(stream).await.status, 200);
    }
    host.token(ONE, 60).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_is_remembered_as_long_as_its_vm_is_there() {
    let host = Host::start(Limits::default());
    let token = host.token(ONE, 60).await;
    let name = "/latest/meta-data/hostname";
    // a rescue, too: its host key is the one to pin as long as it lasts
    operate(&host.journal, 1, Kind::Rescue, Vec::new(), &[]);
    assert_eq!(host.journal.prune(i64::MAX, 100).unwrap(), 0);
    assert_eq!(host.get(ONE, name, &token).await.body, "vm-1");
    let slot = (SlotId(Uuid::from_u128(1)), TOKEN_OF_SLOT);
    operate(&host.journal, 1, Kind::Release, Vec::new(), &[slot]);
    assert_eq!(host.get(ONE, name, &token).await.status, 404);
    assert_eq!(host.journal.prune(i64::MAX, 100).unwrap(), 3);
    let other = host.token(OTHER, 60).await;
    assert_eq!(host.get(OTHER, name, &other).await.body, "vm-2");
}

#[tokio::test]
async fn answers_pass_no_router() {
    let listener = listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (server, _) = listener.accept().await.unwrap();
    assert_eq!(server.ttl().unwrap(), 1);
    assert_ne!(client.ttl().unwrap(), 1);
    // the bridge may get its address later
    listen(SocketAddrV4::new(
        ADDRESS,
        client.local_addr().unwrap().port(),
    ))
    .unwrap();
}
