//! A host of the database that vanishes closes no connection. Who waits for its answer gives up, and the pool is whole again.
use std::time::Duration;

use gpuaas_common::db::{sized, within};
use gpuaas_dev::postgres::{TestDb, Vanishing};

#[tokio::test]
async fn p8_connections_to_a_database_that_vanished_are_given_up_and_replaced() {
    let db = TestDb::create().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (host, options) =
        Vanishing::to(db.options("gpuaas_allocation"), folder.path()).expect("a way");
    let pool = sized(2)
        .acquire_timeout(Duration::from_secs(30))
        .connect_lazy_with(options);
    let one = || async {
        sqlx::query_scalar::<_, i32>("SELECT 1")
            .fetch_one(&pool)
            .await
    };
    let mut first = pool.acquire().await.expect("a connection");
    assert_eq!(one().await.expect("another one answers"), 1);
    host.vanish();
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
