//! The list of terminal sessions, through mutual TLS and the service's own database role.
use std::path::Path;

use gpuaas_common::client::{GrpcChannel, Peers};
use gpuaas_common::config::{
    DatabaseSettings, ServerSettings, Settings, TlsSettings, TokenSettings,
};
use gpuaas_common::identity::TokenMinter;
use gpuaas_common::{CancellationToken, Context, Error};
use gpuaas_dev::ca::Authority;
use gpuaas_dev::postgres::TestDb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::terminal::v1::terminal_admin_service_client::TerminalAdminServiceClient;
use gpuaas_proto::gpuaas::terminal::v1::{
    ListTerminalSessionsRequest, ListTerminalSessionsResponse,
};
use gpuaas_terminal_gateway::Config;
use tonic::Request;
use tonic::transport::{Certificate, Identity};
use uuid::Uuid;

use crate::world::until;

struct World {
    db: TestDb,
    _folder: tempfile::TempDir,
    minter: TokenMinter,
    gateway: Peers,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("readable file")
}

fn local(port: u16) -> std::net::SocketAddr {
    ([127, 0, 0, 1], port).into()
}

impl World {
    async fn start() -> Self {
        let db = TestDb::create().await;
        let folder = tempfile::tempdir().expect("temporary folder");
        let ca = Authority::open(folder.path(), 1).expect("authority");
        let keys = ca.signing_key("token").expect("keys");
        let own = ca.service("terminal-gateway", &[]).expect("identity");
        let gateway = ca.service("gateway", &[]).expect("identity");
        let authority = ca.authority().certificate;
        let port = gpuaas_dev::ports::free().expect("port");
        let metrics = gpuaas_dev::ports::free().expect("port");
        let settings = Settings {
            cell: 1,
            server: ServerSettings {
                listen: vec![local(port)],
                metrics_listen: local(metrics),
                request_timeout_seconds: 30,
                concurrency_per_connection: 64,
                shutdown_grace_seconds: 5,
            },
            tls: TlsSettings {
                ca_file: authority.clone(),
                host_ca_file: None,
                cert_file: own.certificate,
                key_file: own.key,
            },
            token: TokenSettings {
                public_key_file: Some(keys.public),
            },
            database: Some(DatabaseSettings {
                host: db.server().folder().display().to_string(),
                port: db.port(),
                name: db.name().into(),
                user: "gpuaas_terminal".into(),
                password_file: Some(db.password_file().to_owned()),
                max_connections: 4,
            }),
            redis: Default::default(),
            telemetry: Default::default(),
            audit: Default::default(),
            peers: Default::default(),
        };
        let ctx = Context::new("terminal-gateway", settings).expect("context");
        let stop = CancellationToken::new();
        tokio::spawn(gpuaas_terminal_gateway::run(
            ctx,
            Config::default(),
            stop.clone(),
        ));
        let url = [(
            "terminal-gateway".to_owned(),
            format!("https://127.0.0.1:{port}"),
        )];
        let identity = Identity::from_pem(read(&gateway.certificate), read(&gateway.key));
        Self {
            db,
            _folder: folder,
            minter: TokenMinter::from_pem(&read(&keys.private)).expect("private key"),
            gateway: Peers::new(url, Certificate::from_pem(read(&authority)), identity),
            stop,
        }
    }

    fn client(&self) -> TerminalAdminServiceClient<GrpcChannel> {
        TerminalAdminServiceClient::new(self.gateway.channel("terminal-gateway").expect("channel"))
    }

    async fn list(
        &self,
        admin: bool,
        request: ListTerminalSessionsRequest,
    ) -> Result<ListTerminalSessionsResponse, Error> {
        let now = jiff::Timestamp::now().as_second();
        let token = self
            .minter
            .mint("terminal-gateway", "user:root", &[], admin, now)
            .expect("token");
        let mut request = Request::new(request);
        request.metadata_mut().insert(
            "authorization",
            format!("Bearer {token}").parse().expect("ascii"),
        );
        Ok(self
            .client()
            .list_terminal_sessions(request)
            .await?
            .into_inner())
    }

    async fn ready(&self) {
        until("the service", async || {
            let listed = self.list(true, ListTerminalSessionsRequest::default());
            listed.await.ok()
        })
        .await;
    }

    async fn insert(&self, allocation_id: Uuid, minute: i64) -> String {
        let id = Uuid::now_v7();
        sqlx::query(
            "INSERT INTO terminal.sessions (id, allocation_id, project_id, principal, open_time, close_time, close_reason)
             VALUES ($1, $2, $3, 'user:alice', 'epoch'::timestamptz + make_interval(mins => $4::int),
                     'epoch'::timestamptz + make_interval(mins => $4::int + 1), 'closed by the user')",
        )
        .bind(id)
        .bind(allocation_id)
        .bind(Uuid::now_v7())
        .bind(minute)
        .execute(&self.db.owner_pool().await)
        .await
        .expect("insert");
        id.to_string()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f_09_sessions_are_listed_newest_first_page_by_page() {
    let world = World::start().await;
    world.ready().await;
    let (one, other) = (Uuid::now_v7(), Uuid::now_v7());
    // two opened at the same moment: the id decides
    let ids = [
        world.insert(one, 1).await,
        world.insert(other, 2).await,
        world.insert(one, 3).await,
        world.insert(one, 3).await,
    ];
    let ask = |page_token: String, allocation_id: String| ListTerminalSessionsRequest {
        page_size: 2,
        page_token,
        allocation_id,
        ..Default::default()
    };
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let page = world
            .list(true, ask(token, String::new()))
            .await
            .expect("page");
        seen.extend(page.sessions.into_iter().map(|session| session.id));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(
        seen,
        [&ids[3], &ids[2], &ids[1], &ids[0]].map(String::clone)
    );

    let page = world
        .list(true, ask(String::new(), one.to_string()))
        .await
        .expect("page");
    assert!(
        page.sessions
            .iter()
            .all(|session| session.allocation_id == one.to_string())
    );
    assert_eq!(page.sessions[0].close_reason, "closed by the user");
    let foreign = world
        .list(true, ask(page.next_page_token, other.to_string()))
        .await
        .expect_err("refused");
    assert_eq!(foreign.reason(), ErrorReason::PageTokenInvalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_filtered_and_ordered() {
    let world = World::start().await;
    world.ready().await;
    let allocations = [Uuid::now_v7(), Uuid::now_v7()];
    let mut ids = Vec::new();
    for (number, allocation) in [allocations[0], allocations[1], allocations[0]]
        .iter()
        .enumerate()
    {
        ids.push(world.insert(*allocation, 10 - number as i64).await);
    }
    let change = "UPDATE terminal.sessions SET principal = 'user:bob', kind = 'ssh_tunnel', recording = 'kept',
                         recording_bytes = 7, close_time = NULL, close_reason = '' WHERE id = $1";
    let changed = sqlx::query(change).bind(ids[1].parse::<Uuid>().expect("an id"));
    let changed = changed.execute(&world.db.owner_pool().await).await;
    assert_eq!(changed.expect("changed").rows_affected(), 1);
    let ask = |filter: &str, order_by: &str, page_token: String| ListTerminalSessionsRequest {
        page_size: 1,
        page_token,
        filter: filter.into(),
        order_by: order_by.into(),
        ..Default::default()
    };
    let of_one = format!("allocation_id = {}", allocations[0]);
    let [first, second, third] = [0, 1, 2].map(|at: usize| ids[at].as_str());
    let cases: [(&str, &str, &[&str]); 6] = [
        ("", "", &[first, second, third]),
        (&of_one, "open_time", &[third, first]),
        ("NOT close_time:*", "", &[second]),
        (
            "principal = \"user:bob\" AND kind = ssh_tunnel",
            "",
            &[second],
        ),
        ("recorded = true OR recording_bytes > 7", "", &[second]),
        ("close_reason:USER", "principal, open_time", &[third, first]),
    ];
    for (filter, order_by, expected) in cases {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let page = world.list(true, ask(filter, order_by, token)).await;
            let page = page.unwrap_or_else(|error| panic!("{filter}: {error:?}"));
            found.extend(page.sessions.into_iter().map(|one| one.id));
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(found, expected, "{filter} by {order_by}");
    }
    for name in [
        "allocation_id",
        "project_id",
        "principal",
        "kind",
        "recording_bytes",
    ] {
        let page = world.list(true, ask("", name, String::new())).await;
        let token = page.expect(name).next_page_token;
        let next = world.list(true, ask("", name, token.clone())).await;
        assert_eq!(next.expect(name).sessions.len(), 1);
        let other = world.list(true, ask("", "open_time", token)).await;
        let other = other.expect_err("a token is of its order");
        assert_eq!(other.reason(), ErrorReason::PageTokenInvalid);
    }
    for (filter, order_by, field) in [
        ("replica:*", "", "filter"),
        ("kind = vnc", "", "filter"),
        ("", "close_time", "order_by"),
    ] {
        let error = world.list(true, ask(filter, order_by, String::new())).await;
        assert_eq!(error.expect_err("refused").fields()[0].0, field);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_queries_and_users_are_refused() {
    let world = World::start().await;
    world.ready().await;
    let cases = [
        (
            ListTerminalSessionsRequest {
                page_size: -1,
                ..Default::default()
            },
            "page_size",
        ),
        (
            ListTerminalSessionsRequest {
                allocation_id: "x".into(),
                ..Default::default()
            },
            "allocation_id",
        ),
        (
            ListTerminalSessionsRequest {
                page_token: "x".into(),
                ..Default::default()
            },
            "page_token",
        ),
    ];
    for (request, field) in cases {
        let error = world.list(true, request).await.expect_err("refused");
        assert_eq!(error.fields()[0].0, field);
    }
    let error = world
        .list(false, ListTerminalSessionsRequest::default())
        .await
        .expect_err("refused");
    assert_eq!(error.reason(), ErrorReason::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_services_role_reads_sessions_only() {
    let db = TestDb::create().await;
    let pool = db.pool("gpuaas_terminal").await;
    for refused in [
        "DELETE FROM sessions",
        "UPDATE sessions SET principal = 'x'",
        "SELECT FROM inventory.nodes",
    ] {
        let error = sqlx::query(refused)
            .execute(&pool)
            .await
            .expect_err(refused);
        let code = error
            .as_database_error()
            .and_then(|error| error.code().map(std::borrow::Cow::into_owned));
        assert_eq!(code.as_deref(), Some("42501"), "{refused}");
    }
}
