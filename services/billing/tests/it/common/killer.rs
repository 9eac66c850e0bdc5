//! A relay before the database that cuts the connection at a chosen statement, before the database sees it or
//! before its answer gets back: a crash between any two statements.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gpuaas_dev::postgres::TestDb;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

/// On which side of the statement the connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The database never sees the statement.
    BeforeStatement,
    /// The database has executed it, the client never hears so.
    BeforeAnswer,
}

/// The relay.
pub struct Killer {
    _folder: tempfile::TempDir,
    hit: Arc<AtomicBool>,
    pool: PgPool,
}

impl Killer {
    /// A pool of one connection that is cut at statement number `at` (from 0), once.
    pub async fn new(db: &TestDb, role: &str, at: usize, cut: Cut) -> Self {
        let folder = tempfile::tempdir().expect("temp dir");
        let socket = format!(".s.PGSQL.{}", db.port());
        let listener = UnixListener::bind(folder.path().join(&socket)).expect("bind");
        let server = db.server().folder().join(&socket);
        let (hit, seen) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let mark = hit.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = UnixStream::connect(&server).await.expect("database");
                let (mark, seen) = (mark.clone(), seen.clone());
                tokio::spawn(async move { relay(client, server, &seen, at, cut, &mark).await });
            }
        });
        let options = db.options(role).socket(folder.path());
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .connect_lazy_with(options);
        Self {
            _folder: folder,
            hit,
            pool,
        }
    }

    /// Whether the statement came and the connection was cut.
    pub fn hit(&self) -> bool {
        self.hit.load(Ordering::SeqCst)
    }

    /// The pool behind the relay.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }
}

async fn relay(
    client: UnixStream,
    server: UnixStream,
    seen: &AtomicUsize,
    at: usize,
    cut: Cut,
    hit: &AtomicBool,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::select! {
        () = forward_until(&mut from_client, &mut to_server, seen, at, cut, hit) => {}
        _ = tokio::io::copy(&mut from_server, &mut to_client) => return,
    }
    if cut == Cut::BeforeAnswer && hit.load(Ordering::SeqCst) {
        // the answer means that the statement is done; it ends here
        let mut answer = [0u8; 1024];
        let _ = from_server.read(&mut answer).await;
    }
}

/// Forwards messages of the client. Returns at its end, or at the chosen statement.
async fn forward_until(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    seen: &AtomicUsize,
    at: usize,
    cut: Cut,
    hit: &AtomicBool,
) {
    // the first message has no type byte
    let mut typed = false;
    loop {
        let mut message = Vec::new();
        if typed {
            let Ok(kind) = from.read_u8().await else {
                return;
            };
            message.push(kind);
        }
        let Ok(length) = from.read_u32().await else {
            return;
        };
        message.extend(length.to_be_bytes());
        let body = message.len();
        message.resize(body + length as usize - 4, 0);
        if from.read_exact(&mut message[body..]).await.is_err() {
            return;
        }
        // a simple query, or the end of an extended one
        let statement = typed && matches!(message[0], b'Q' | b'S');
        let chosen = statement && seen.fetch_add(1, Ordering::SeqCst) == at;
        if chosen {
            hit.store(true, Ordering::SeqCst);
        }
        if chosen && cut == Cut::BeforeStatement {
            return;
        }
        if to.write_all(&message).await.is_err() || chosen {
            return;
        }
        typed = true;
    }
}
