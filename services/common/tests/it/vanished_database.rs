//! A host of the database that vanishes closes no connection. Who waits for its answer gives up, and the pool is whole again.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpuaas_common::db::{sized, within};
use gpuaas_dev::postgres::TestDb;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

/// Passes on what comes from one side, until the host has vanished: then it keeps everything for itself, and closes nothing.
async fn pass_on(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    vanished: Arc<AtomicBool>,
) {
    let mut buffer = [0; 16_384];
    loop {
        let count = from.read(&mut buffer).await.unwrap_or_default();
        if vanished.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn p8_connections_to_a_database_that_vanished_are_given_up_and_replaced() {
    let db = TestDb::create().await;
    let options = db.options("gpuaas_allocation");
    let name = format!(".s.PGSQL.{}", options.get_port());
    let server = options.get_socket().expect("a folder").join(&name);
    let folder = tempfile::tempdir().expect("a folder");
    let listener = UnixListener::bind(folder.path().join(&name)).expect("bound");
    let vanished = Arc::new(AtomicBool::new(false));
    let host = vanished.clone();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.expect("accepted");
            let server = UnixStream::connect(&server).await.expect("connected");
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            // those that come later reach another host, which took over
            let vanished = match host.load(Ordering::SeqCst) {
                false => host.clone(),
                true => Arc::default(),
            };
            tokio::spawn(pass_on(from_client, to_server, vanished.clone()));
            tokio::spawn(pass_on(from_server, to_client, vanished));
        }
    });

    let pool = sized(2)
        .acquire_timeout(Duration::from_secs(30))
        .connect_lazy_with(options.socket(folder.path()));
    let one = || async {
        sqlx::query_scalar::<_, i32>("SELECT 1")
            .fetch_one(&pool)
            .await
    };
    let mut first = pool.acquire().await.expect("a connection");
    assert_eq!(one().await.expect("another one answers"), 1);
    vanished.store(true, Ordering::SeqCst);
    // one waits for an answer, the other rests
    let waiting = sqlx::query("SELECT 1").execute(&mut *first);
    let error = within(Duration::from_millis(200), waiting)
        .await
        .expect_err("nobody answers");
    assert!(
        error.to_string().contains("no answer within 200ms"),
        "{error}"
    );
    drop(first);
    // each place of the pool is free again, although nobody has closed a connection
    let both = async { tokio::try_join!(pool.acquire(), pool.acquire()).map(drop) };
    within(Duration::from_secs(20), both)
        .await
        .expect("two connections");
    assert_eq!(one().await.expect("the other host answers"), 1);
}
