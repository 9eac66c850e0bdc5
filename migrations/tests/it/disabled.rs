//! What edge/0005 makes of principals that were disabled before it: who said so is read from the audit trail.
use std::fs;

use sqlx::Connection as _;

use crate::additive::{run, scripts};
use crate::empty::Empty;

/// The script that asks who disabled a principal.
const SCRIPT: u32 = 5;

const ROWS: &str = "
INSERT INTO principals (id, name, issuer, subject, display_name, kind, disable_time)
SELECT lpad(n::text, 32, '0')::uuid, (CASE n WHEN 6 THEN 'user:p' ELSE 'service:p' END) || n, 'i', n::text, '',
       CASE n WHEN 6 THEN 'user' ELSE 'service' END, CASE n WHEN 1 THEN NULL ELSE now() END FROM generate_series(1, 7) AS n;
INSERT INTO audit (id, principal, action, resource, resource_id, request_id, detail)
SELECT gen_random_uuid(), 'user:x', 'principal.' || v, 'principal', lpad(n::text, 32, '0')::uuid::text, 'r', d::jsonb
  FROM (VALUES (3, 'disable', '{}'), (4, 'disable', '{}'), (5, 'disable', '{}'), (7, 'disable', '{\"outcome\": \"denied\"}')) AS t (n, v, d);
INSERT INTO audit (id, principal, action, resource, resource_id, request_id, detail)
SELECT gen_random_uuid(), 'user:o', 'service_account.' || v, 'project', 'j', 'r', jsonb_build_object('service_account', 'service:p' || n)
  FROM (VALUES (2, 'disable'), (4, 'enable'), (4, 'disable')) AS t (n, v);
INSERT INTO audit (id, principal, action, resource, resource_id, request_id, detail)
SELECT gen_random_uuid(), 'user:x', 'principal.disable', 'principal', lpad('2', 32, '0')::uuid::text, 'r', '{\"outcome\": \"denied\"}';
";

#[tokio::test]
async fn who_disabled_an_account_before_is_read_from_the_audit_trail() {
    let empty = Empty::new().await;
    let mut owner = empty.owner().await;
    run(
        &mut owner,
        "CREATE SCHEMA edge; SET search_path = edge",
        "schema",
    )
    .await;
    let (before, after): (Vec<_>, Vec<_>) = scripts("edge")
        .into_iter()
        .partition(|(version, _)| *version < SCRIPT);
    for (_, path) in scripts("common").into_iter().chain(before) {
        let sql = fs::read_to_string(&path).expect("a script");
        run(&mut owner, &sql, &path.display().to_string()).await;
    }
    run(&mut owner, ROWS, "rows").await;
    let (_, path) = after.first().expect("the script");
    let sql = fs::read_to_string(path).expect("a script");
    run(&mut owner, &format!("BEGIN; {sql}; COMMIT"), "the script").await;
    let by_platform: Vec<String> =
        sqlx::query_scalar("SELECT name FROM principals WHERE disabled_by_platform ORDER BY name")
            .fetch_all(&mut owner)
            .await
            .expect("rows");
    // by an administrator, or a person; not: enabled, by its owners, by them again after the platform, on no record
    assert_eq!(by_platform, ["service:p3", "service:p5", "user:p6"]);
    // who is enabled is disabled by nobody, whoever enables
    let enable = "UPDATE principals SET disable_time = NULL";
    run(&mut owner, enable, "enable").await;
    let left: i64 =
        sqlx::query_scalar("SELECT count(*) FROM principals WHERE disabled_by_platform")
            .fetch_one(&mut owner)
            .await
            .expect("count");
    assert_eq!(left, 0);
    owner.close().await.expect("closed");
    empty.drop_it().await;
}
