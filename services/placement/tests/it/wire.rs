//! A wire between a pool and the database that is cut at a chosen statement: what a crash of the process, of the
//! connection or of the backend looks like from the other side.
//!
//! Every statement ends with a message `Sync` or is a message `Query`; both are counted from the moment a cut is
//! ordered. After a cut the server has seen its end of the connection close, so locks are given back and the
//! outcome of the transaction is final before [`Wire::ended`] returns.
use std::sync::{Arc, Mutex};

use gpuaas_dev::postgres::TestDb;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore};

/// How the wire is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The statement is never sent.
    Before,
    /// The statement runs, its answer is lost; a `COMMIT` may have happened.
    After,
    /// `pg_terminate_backend` instead of the statement.
    Terminated,
}

#[derive(Default)]
struct Order {
    /// Statements that still pass.
    left: u32,
    cut: Option<Cut>,
    hit: bool,
    /// Statements that have passed since it was given.
    passed: u32,
}

struct Shared {
    order: Mutex<Order>,
    /// One permit per cut that the server has noticed.
    ended: Semaphore,
    server: std::path::PathBuf,
    superuser: PgPool,
}

/// The wire. Its pools are as good as direct ones until a cut is ordered.
pub struct Wire {
    shared: Arc<Shared>,
    folder: TempDir,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Wire {
    pub async fn new(db: &TestDb) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let socket = format!(".s.PGSQL.{}", db.port());
        let listener = UnixListener::bind(folder.path().join(&socket)).expect("listen");
        let shared = Arc::new(Shared {
            order: Mutex::default(),
            ended: Semaphore::new(0),
            server: db.server().folder().join(&socket),
            superuser: db.pool("postgres").await,
        });
        let serving = shared.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, serving.clone()));
            }
        });
        Self {
            shared,
            folder,
            task,
        }
    }

    /// A pool of a role over this wire.
    pub fn pool(&self, db: &TestDb, role: &str) -> PgPool {
        PgPoolOptions::new()
            .max_connections(2)
            .connect_lazy_with(db.options(role).socket(self.folder.path()))
    }

    /// Lets `left` more statements pass and cuts at the next one.
    pub fn order(&self, left: u32, cut: Cut) {
        *self.shared.order.lock().expect("lock") = Order {
            left,
            cut: Some(cut),
            hit: false,
            passed: 0,
        };
    }

    /// Takes an order back; true when the wire was cut, and then the server has noticed.
    pub async fn ended(&self) -> bool {
        let hit = {
            let mut order = self.shared.order.lock().expect("lock");
            order.cut = None;
            order.hit
        };
        if hit {
            self.shared.ended.acquire().await.expect("open").forget();
        }
        hit
    }

    /// Statements that have passed since the last order.
    pub fn passed(&self) -> u32 {
        self.shared.order.lock().expect("lock").passed
    }
}

impl Shared {
    /// Counts a statement; what to do with it.
    fn count(&self) -> Option<Cut> {
        let mut order = self.order.lock().expect("lock");
        let cut = order.cut?;
        if order.left > 0 {
            order.left -= 1;
            order.passed += 1;
            return None;
        }
        order.cut = None;
        order.hit = true;
        Some(cut)
    }
}

/// What both directions of one connection know of each other.
#[derive(Default)]
struct Link {
    /// Process id of the backend.
    backend: Mutex<i32>,
    /// Answers are swallowed up to the end of the present statement.
    swallow: Mutex<bool>,
    ended: Notify,
}

async fn carry(client: UnixStream, shared: Arc<Shared>) {
    let Ok(server) = UnixStream::connect(&shared.server).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let link = Arc::new(Link::default());
    let answers = tokio::spawn(answers(from_server, to_client, link.clone()));
    let cut = statements(from_client, to_server, &shared, &link).await;
    // the server's half is closed now: it ends the backend, and its answers end
    let _ended = answers.await;
    if cut {
        shared.ended.add_permits(1);
    }
}

/// Carries messages of the client; true when it ended by a cut.
async fn statements(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    shared: &Shared,
    link: &Link,
) -> bool {
    // the start of a connection is a message without a type
    if copy_message(&mut client, &mut server, 0).await.is_none() {
        return false;
    }
    while let Some((kind, message)) = read_message(&mut client, 1).await {
        let cut = match kind {
            b'Q' | b'S' => shared.count(),
            _ => None,
        };
        match cut {
            Some(Cut::Before) => return true,
            Some(Cut::Terminated) => {
                let backend = *link.backend.lock().expect("lock");
                sqlx::query("SELECT pg_terminate_backend($1)")
                    .bind(backend)
                    .execute(&shared.superuser)
                    .await
                    .expect("terminate");
                link.ended.notified().await;
                return true;
            }
            Some(Cut::After) => {
                *link.swallow.lock().expect("lock") = true;
                if server.write_all(&message).await.is_ok() {
                    link.ended.notified().await;
                }
                return true;
            }
            None => {}
        }
        if server.write_all(&message).await.is_err() {
            return false;
        }
    }
    false
}

/// Carries messages of the server until one of the two has ended, then waits for the server's end.
async fn answers(mut server: OwnedReadHalf, client: OwnedWriteHalf, link: Arc<Link>) {
    let mut client = Some(client);
    while let Some((kind, message)) = read_message(&mut server, 1).await {
        if kind == b'K' {
            let id: [u8; 4] = message[5..9].try_into().expect("four bytes");
            *link.backend.lock().expect("lock") = i32::from_be_bytes(id);
        }
        if *link.swallow.lock().expect("lock") {
            if kind == b'Z' {
                link.ended.notify_one();
                client = None;
            }
        } else if let Some(open) = &mut client
            && open.write_all(&message).await.is_err()
        {
            client = None;
        }
    }
    link.ended.notify_one();
}

/// One message, with the bytes of its header: `prefix` bytes of type, then its length.
async fn read_message(from: &mut (impl AsyncRead + Unpin), prefix: usize) -> Option<(u8, Vec<u8>)> {
    let mut message = vec![0; prefix + 4];
    from.read_exact(&mut message).await.ok()?;
    let length = u32::from_be_bytes(message[prefix..].try_into().expect("four bytes")) as usize;
    message.resize(prefix + length, 0);
    from.read_exact(&mut message[prefix + 4..]).await.ok()?;
    Some((message[0], message))
}

async fn copy_message(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    prefix: usize,
) -> Option<()> {
    let (_, message) = read_message(from, prefix).await?;
    to.write_all(&message).await.ok()
}
