//! What edge/0005 makes of principals that were disabled before it, and edge/0006 of those that gateways of the release before
//! disable while it is rolled out: who said so is read from the audit trail.
use std::fs;

use sqlx::{Connection as _, PgConnection};

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

/// A database of the scripts before one, with rows; then the others are run one by one.
pub(super) async fn before_script(script: u32) -> (Empty, PgConnection, Vec<String>) {
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
        .partition(|(version, _)| *version < script);
    for (_, path) in scripts("common").into_iter().chain(before) {
        let sql = fs::read_to_string(&path).expect("a script");
        run(&mut owner, &sql, &path.display().to_string()).await;
    }
    let after = after.into_iter();
    let after = after.map(|(_, path)| fs::read_to_string(path).expect("a script"));
    (empty, owner, after.collect())
}

async fn disabled_by_platform(owner: &mut PgConnection) -> Vec<String> {
    sqlx::query_scalar("SELECT name FROM principals WHERE disabled_by_platform ORDER BY name")
        .fetch_all(owner)
        .await
        .expect("rows")
}

#[tokio::test]
async fn who_disabled_an_account_before_is_read_from_the_audit_trail() {
    let (empty, mut owner, after) = before_script(SCRIPT).await;
    run(&mut owner, ROWS, "rows").await;
    let sql = after.first().expect("the script");
    run(&mut owner, &format!("BEGIN; {sql}; COMMIT"), "the script").await;
    let by_platform = disabled_by_platform(&mut owner).await;
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

/// As a gateway of before the column does it, in one transaction.
fn disable(number: u32, action: &str, detail: &str) -> String {
    format!(
        "BEGIN; UPDATE principals SET disable_time = coalesce(disable_time, clock_timestamp()) WHERE name LIKE '%:p{number}';
         INSERT INTO audit (id, principal, action, resource, resource_id, request_id, detail)
         SELECT gen_random_uuid(), 'user:x', '{action}', 'principal', id::text, 'r', '{detail}' FROM principals
          WHERE name LIKE '%:p{number}'; COMMIT"
    )
}

#[tokio::test]
async fn what_old_gateways_disable_during_an_upgrade_is_the_platforms() {
    let (empty, mut owner, after) = before_script(SCRIPT + 1).await;
    let rows = "INSERT INTO principals (id, name, issuer, subject, display_name, kind)
        SELECT lpad(n::text, 32, '0')::uuid, (CASE n WHEN 3 THEN 'user:p' ELSE 'service:p' END) || n, 'i', n::text, '',
               CASE n WHEN 3 THEN 'user' ELSE 'service' END FROM generate_series(1, 6) AS n";
    run(&mut owner, rows, "rows").await;
    let by_platform = disable(1, "principal.disable", "{}");
    let by_owner = disable(
        2,
        "service_account.disable",
        r#"{"service_account": "service:p2"}"#,
    );
    let person = disable(3, "principal.disable", "{}");
    for sql in [&by_platform, &by_owner, &person] {
        run(&mut owner, sql, "an old gateway, before the script").await;
    }
    assert!(disabled_by_platform(&mut owner).await.is_empty());
    let sql = after.first().expect("the script");
    run(&mut owner, &format!("BEGIN; {sql}; COMMIT"), "the script").await;
    let now = disabled_by_platform(&mut owner).await;
    assert_eq!(now, ["service:p1", "user:p3"]);
    // and after it; what was refused changed nothing
    let later = disable(4, "principal.disable", "{}");
    let refused = disable(5, "principal.disable", r#"{"outcome": "denied"}"#);
    for sql in [&later, &refused] {
        run(&mut owner, sql, "an old gateway, after the script").await;
    }
    let now = disabled_by_platform(&mut owner).await;
    assert_eq!(now, ["service:p1", "service:p4", "user:p3"]);
    owner.close().await.expect("closed");
    empty.drop_it().await;
}
