//! The audit trail's hash chain on PostgreSQL (P10).
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gpuaas_common::audit::read::{self, Filter};
use gpuaas_common::audit::{self, Entry, chain, seal};
use gpuaas_common::origin::{self, Origin};
use gpuaas_dev::postgres::TestDb;
use gpuaas_proto::gpuaas::audit::v1::{
    AuditOutcome, AuditRecord, ExportAuditRecordsRequest, ListAuditRecordsRequest,
};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, PgPool};

const ROLE: &str = "gpuaas_billing";
const BATCH: i64 = 7;

fn entry<'a>(principal: &'a str, resource_id: &'a str) -> Entry<'a> {
    Entry {
        principal,
        action: "price.create",
        resource: "price_version",
        resource_id,
        request_id: "r",
        detail: audit::with_digests(
            serde_json::json!({ "n": 1.50, "text": "é\n" }),
            None,
            Some(&resource_id.to_owned()),
        ),
    }
}

async fn write(pool: &PgPool, principal: &str) {
    let mut conn = pool.acquire().await.expect("a connection");
    audit::record(&mut conn, entry(principal, "x"))
        .await
        .expect("recorded");
}

async fn seal_all(pool: &PgPool) {
    while seal::seal(pool, BATCH).await.expect("sealed") > 0 {}
}

/// All records that are kept, after their chain was verified from its start.
async fn verified(pool: &PgPool) -> Vec<AuditRecord> {
    let mut conn = pool.acquire().await.expect("a connection");
    let mut records: Vec<AuditRecord> = Vec::new();
    let mut first = None;
    loop {
        let request = ExportAuditRecordsRequest {
            after_position: records.last().map_or(0, |last| last.position),
            page_size: 11,
            ..Default::default()
        };
        let page = read::export(&mut conn, &request).await.expect("a page");
        let start = page.start.expect("a start");
        if let Some(last) = records.last() {
            assert_eq!(
                (start.position, &start.digest),
                (last.position, &last.digest)
            );
        }
        first.get_or_insert(start);
        if page.records.is_empty() {
            break;
        }
        records.extend(page.records);
    }
    let start = first.expect("a page");
    let mut position = start.position;
    let mut digest: chain::Digest = hex::decode(&start.digest)
        .expect("hex")
        .try_into()
        .expect("32 bytes");
    for record in &records {
        position += 1;
        digest = chain::digest(&digest, record);
        assert_eq!(record.position, position, "no gap");
        assert_eq!(record.digest, hex::encode(digest), "position {position}");
    }
    let chain = read::chain(&mut conn).await.expect("a chain");
    assert_eq!(chain.head.expect("a head").digest, hex::encode(digest));
    records
}

/// SQLSTATE of what is refused.
async fn refused(conn: &mut PgConnection, sql: &str) -> String {
    let error = conn.execute(AssertSqlSafe(sql.to_owned())).await;
    let error = error.expect_err(sql);
    let error = error.as_database_error().expect("of the database");
    error.code().unwrap_or_default().into_owned()
}

/// Writers in every manner, and sealers whose connections are cut again and again, as those of a killed process are.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p10_sealers_at_once_that_are_killed_leave_no_gap_and_no_fork() {
    let db = TestDb::create().await;
    let pool = db.pool(ROLE).await;
    let written = Arc::new(AtomicBool::new(false));
    let mut sealers = tokio::task::JoinSet::new();
    let sealed = Arc::new(AtomicU64::new(0));
    for _ in 0..3 {
        let options = db.options(ROLE).application_name("sealer");
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .connect_lazy_with(options);
        let (written, sealed) = (written.clone(), sealed.clone());
        sealers.spawn(async move {
            while !written.load(Ordering::SeqCst) {
                // a sealer that is cut off goes on with a new connection
                if let Ok(rows) = seal::seal(&pool, BATCH).await {
                    sealed.fetch_add(rows, Ordering::SeqCst);
                }
            }
        });
    }
    let mut superuser = db.server().superuser(db.name()).await.expect("superuser");
    let killer = {
        let (written, sealed) = (written.clone(), sealed.clone());
        tokio::spawn(async move {
            let mut killed = 0_usize;
            let mut at = 0;
            while !written.load(Ordering::SeqCst) {
                // some progress between two kills
                let now = sealed.load(Ordering::SeqCst);
                if now < at {
                    tokio::task::yield_now().await;
                    continue;
                }
                at = now + 5;
                let cut: Vec<bool> = sqlx::query_scalar(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                      WHERE application_name = 'sealer' AND datname = current_database()",
                )
                .fetch_all(&mut superuser)
                .await
                .expect("cut");
                killed += cut.len();
            }
            killed
        })
    };
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let pool = pool.clone();
        writers.spawn(async move {
            let principal = format!("user:{writer}");
            let mut committed = 0;
            for round in 0..60 {
                let mut tx = pool.begin().await.expect("begin");
                for _ in 0..=round % 3 {
                    audit::record(&mut tx, entry(&principal, "x"))
                        .await
                        .expect("recorded");
                }
                if round % 5 == 4 {
                    tx.rollback().await.expect("rollback");
                } else {
                    tx.commit().await.expect("commit");
                    committed += 1 + round % 3;
                }
            }
            committed
        });
    }
    let committed: Vec<i32> = writers.join_all().await;
    written.store(true, Ordering::SeqCst);
    assert!(killer.await.expect("killer") > 0);
    sealers.join_all().await;
    seal_all(&pool).await;
    let records = verified(&pool).await;
    let expected: i32 = committed.iter().sum();
    assert_eq!(records.len(), usize::try_from(expected).expect("a count"));
    let mut ids: Vec<&str> = records.iter().map(|one| one.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), records.len(), "each once");
}

#[tokio::test]
async fn p10_a_transaction_that_is_not_over_holds_nobody_up() {
    let db = TestDb::create().await;
    let pool = db.pool(ROLE).await;
    let mut open = pool.begin().await.expect("begin");
    audit::record(&mut open, entry("user:slow", "x"))
        .await
        .expect("recorded");
    write(&pool, "user:fast").await;
    assert_eq!(seal::seal(&pool, BATCH).await.expect("sealed"), 1);
    open.commit().await.expect("commit");
    assert_eq!(seal::seal(&pool, BATCH).await.expect("sealed"), 1);
    let records = verified(&pool).await;
    let order: Vec<&str> = records.iter().map(|one| one.principal.as_str()).collect();
    assert_eq!(order, ["user:fast", "user:slow"]);
}

/// Another sealer is at work: one is enough, and no writer waits for it.
#[tokio::test]
async fn p10_one_seals_at_a_time_and_writers_do_not_wait() {
    let db = TestDb::create().await;
    let pool = db.pool(ROLE).await;
    let mut other = pool.begin().await.expect("begin");
    other
        .execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('audit of ' || current_schema(), 0))",
        )
        .await
        .expect("locked");
    write(&pool, "user:a").await;
    assert_eq!(seal::seal(&pool, BATCH).await.expect("none"), 0);
    other.rollback().await.expect("rollback");
    assert_eq!(seal::seal(&pool, BATCH).await.expect("sealed"), 1);
}

#[tokio::test]
async fn p10_a_row_is_sealed_once_and_never_changes() {
    const DENIED: &str = "42501";
    const IMMUTABLE: &str = "23000";
    let db = TestDb::create().await;
    let pool = db.pool(ROLE).await;
    write(&pool, "user:a").await;
    seal_all(&pool).await;
    write(&pool, "user:b").await;
    let digest = "decode(repeat('ab', 32), 'hex')";
    let mut service = pool.acquire().await.expect("a connection");
    for (sql, code) in [
        ("UPDATE audit SET principal = 'x'", DENIED),
        ("DELETE FROM audit", DENIED),
        ("UPDATE audit_checkpoint SET position = 9", DENIED),
        ("INSERT INTO audit_checkpoint DEFAULT VALUES", DENIED),
        (
            "INSERT INTO audit (id, principal, action, resource, resource_id, request_id, position)
             VALUES (gen_random_uuid(), 'a', 'b', 'c', 'd', 'e', 9)",
            DENIED,
        ),
        (
            "UPDATE audit SET position = 9 WHERE position = 1",
            IMMUTABLE,
        ),
        (
            "UPDATE audit SET position = NULL, digest = NULL WHERE position = 1",
            IMMUTABLE,
        ),
        (
            "UPDATE audit SET digest = DIGEST WHERE position = 1",
            IMMUTABLE,
        ),
        // an unsealed row gets both, and a position of its own
        (
            "UPDATE audit SET position = 9 WHERE position IS NULL",
            "23514",
        ),
        (
            "UPDATE audit SET position = 0, digest = DIGEST WHERE position IS NULL",
            "23514",
        ),
        (
            "UPDATE audit SET position = 1, digest = DIGEST WHERE position IS NULL",
            "23505",
        ),
        ("SELECT retire_audit(29, 10)", "23514"),
        ("SELECT retire_audit(NULL, 10)", "23514"),
    ] {
        let sql = sql.replace("DIGEST", digest);
        assert_eq!(refused(&mut service, &sql).await, code, "{sql}");
    }
    let owner = db.owner_pool().await;
    let mut owner = owner.acquire().await.expect("a connection");
    for sql in [
        "DELETE FROM billing.audit WHERE position = 1",
        "DELETE FROM billing.audit WHERE position IS NULL",
        "UPDATE billing.audit SET principal = 'x' WHERE position IS NULL",
        "UPDATE billing.audit SET principal = 'x', position = 2, digest = DIGEST WHERE position IS NULL",
        "TRUNCATE billing.audit",
    ] {
        let sql = sql.replace("DIGEST", digest);
        assert_eq!(refused(&mut owner, &sql).await, IMMUTABLE, "{sql}");
    }
    seal_all(&pool).await;
    assert_eq!(verified(&pool).await.len(), 2);
}

/// Makes the rows that are not sealed as old as that.
async fn age(db: &TestDb, days: i32) {
    let mut superuser = db.server().superuser(db.name()).await.expect("superuser");
    let sql = format!(
        "SET session_replication_role = replica;
         UPDATE billing.audit SET at = at - make_interval(days => {days}) WHERE position IS NULL"
    );
    superuser.execute(AssertSqlSafe(sql)).await.expect("aged");
}

#[tokio::test]
async fn p10_retention_removes_the_oldest_and_what_stays_is_verified() {
    let db = TestDb::create().await;
    let pool = db.pool(ROLE).await;
    for days in [500, 450, 10, 500, 0] {
        write(&pool, &format!("user:{days}")).await;
        write(&pool, &format!("user:{days}")).await;
        age(&db, days).await;
        seal_all(&pool).await;
    }
    let before = verified(&pool).await;
    assert_eq!(seal::retire(&pool, 400).await.expect("retired"), 4);
    assert_eq!(seal::retire(&pool, 400).await.expect("nothing left"), 0);
    let kept = verified(&pool).await;
    assert_eq!(kept, before[4..], "an old one behind a young one stays");
    write(&pool, "user:later").await;
    seal_all(&pool).await;
    assert_eq!(verified(&pool).await.len(), 7);

    // a row that is not sealed is never removed, and a chain goes on where all of it was
    let db = TestDb::create().await;
    let pool = db.pool(ROLE).await;
    write(&pool, "user:old").await;
    age(&db, 500).await;
    assert_eq!(seal::retire(&pool, 400).await.expect("nothing"), 0);
    seal_all(&pool).await;
    assert_eq!(seal::retire(&pool, 400).await.expect("retired"), 1);
    assert!(verified(&pool).await.is_empty());
    write(&pool, "user:new").await;
    seal_all(&pool).await;
    assert_eq!(verified(&pool).await[0].position, 2);
}

#[tokio::test]
async fn p10_a_row_says_from_where_it_was_caused() {
    let db = TestDb::create().await;
    let pool = db.pool(ROLE).await;
    let origin = Origin {
        address: "192.0.2.1".to_owned(),
        user_agent: "curl/8".to_owned(),
        region: "r1".to_owned(),
    };
    origin::scope(origin, write(&pool, "user:a")).await;
    write(&pool, "service:billing").await;
    seal_all(&pool).await;
    let records = verified(&pool).await;
    let from = |one: &AuditRecord| [&one.address, &one.user_agent, &one.region].map(String::clone);
    assert_eq!(from(&records[0]), ["192.0.2.1", "curl/8", "r1"]);
    assert_eq!(from(&records[1]), ["", "", ""]);
    assert_eq!(
        (records[0].source.as_str(), records[0].service.as_str()),
        ("billing", "billing")
    );
    // as the database has it, which keeps what JSON does not say
    let known = "{\"n\": 1.5, \"text\": \"é\\n\", \"after_digest\": \"";
    assert!(
        records[0].detail.starts_with(known),
        "{}",
        records[0].detail
    );
}

#[tokio::test]
async fn p10_records_of_a_project_are_found_by_it_and_by_kind() {
    let db = TestDb::create().await;
    let pool = db.pool(ROLE).await;
    let mut conn = pool.acquire().await.expect("a connection");
    let (own, other) = (uuid::Uuid::from_u128(1), uuid::Uuid::from_u128(2));
    for (action, project) in [
        ("api_key.create", Some(own)),
        ("api_keys.create", Some(own)),
        ("api_key.rotate", Some(other)),
        ("api_key.disable", None),
    ] {
        let mut one = entry("user:a", "x");
        one.action = action;
        if let Some(project) = project {
            one.detail = audit::in_project(one.detail, project);
        }
        audit::record(&mut conn, one).await.expect("recorded");
    }
    for (project, kind, expected) in [
        (own, "", vec!["api_keys.create", "api_key.create"]),
        (own, "api_key", vec!["api_key.create"]),
        (other, "", vec!["api_key.rotate"]),
        (uuid::Uuid::from_u128(3), "", vec![]),
    ] {
        let filter = read::Filter::parse(&ListAuditRecordsRequest::default()).expect("a filter");
        let filter = filter.in_project(project, kind);
        let found = read::list(&mut conn, &filter, None, 10).await;
        let found = found.expect("records");
        let actions: Vec<&str> = found.iter().map(|one| one.action.as_str()).collect();
        assert_eq!(actions, expected, "{project} {kind}");
    }
}

#[tokio::test]
async fn p10_records_are_found_by_what_they_say() {
    let db = TestDb::create().await;
    let pool = db.pool(ROLE).await;
    let mut conn = pool.acquire().await.expect("a connection");
    for (principal, resource_id, outcome) in [
        ("user:a", "p1", "allowed"),
        ("user:a", "p2", "denied"),
        ("user:b", "p1", "denied"),
    ] {
        let mut one = entry(principal, resource_id);
        if outcome == "denied" {
            one.detail = serde_json::json!({ "outcome": outcome });
        }
        audit::record(&mut conn, one).await.expect("recorded");
    }
    let all = ListAuditRecordsRequest::default;
    let now = jiff::Timestamp::now().as_second();
    let time = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    let table = [
        (all(), vec!["user:b p1", "user:a p2", "user:a p1"]),
        (
            ListAuditRecordsRequest {
                principal: "user:a".to_owned(),
                ..all()
            },
            vec!["user:a p2", "user:a p1"],
        ),
        (
            ListAuditRecordsRequest {
                resource_id: "p1".to_owned(),
                outcome: AuditOutcome::Denied.into(),
                ..all()
            },
            vec!["user:b p1"],
        ),
        (
            ListAuditRecordsRequest {
                outcome: AuditOutcome::Allowed.into(),
                ..all()
            },
            vec!["user:a p1"],
        ),
        (
            ListAuditRecordsRequest {
                action: "price.delete".to_owned(),
                ..all()
            },
            vec![],
        ),
        (
            ListAuditRecordsRequest {
                start_time: time(now - 600),
                end_time: time(now + 600),
                principal: "user:b".to_owned(),
                ..all()
            },
            vec!["user:b p1"],
        ),
        (
            ListAuditRecordsRequest {
                end_time: time(now - 600),
                ..all()
            },
            vec![],
        ),
        (
            ListAuditRecordsRequest {
                start_time: time(now + 600),
                ..all()
            },
            vec![],
        ),
        (
            ListAuditRecordsRequest {
                filter: "outcome = denied AND NOT principal = \"user:a\"".to_owned(),
                ..all()
            },
            vec!["user:b p1"],
        ),
        (
            ListAuditRecordsRequest {
                filter: "resource_id = p1 OR principal:B".to_owned(),
                order_by: "create_time".to_owned(),
                ..all()
            },
            vec!["user:a p1", "user:b p1"],
        ),
        (
            ListAuditRecordsRequest {
                principal: "user:a".to_owned(),
                filter: "create_time > 2020-01-01 AND outcome = allowed AND service = billing"
                    .to_owned(),
                ..all()
            },
            vec!["user:a p1"],
        ),
        // the filter is a value, not SQL
        (
            ListAuditRecordsRequest {
                request_id: "' OR true --".to_owned(),
                ..all()
            },
            vec![],
        ),
    ];
    for (request, expected) in table {
        let filter = Filter::parse(&request).expect("good");
        let found = read::list(&mut conn, &filter, None, 10)
            .await
            .expect("found");
        let found: Vec<String> = found
            .iter()
            .map(|one| format!("{} {}", one.principal, one.resource_id))
            .collect();
        assert_eq!(found, expected, "{request:?}");
    }
    let first = read::list(&mut conn, &Filter::default(), None, 1)
        .await
        .expect("found");
    let before = first[0].id.parse().expect("an id");
    let rest = read::list(&mut conn, &Filter::default(), Some(before), 10)
        .await
        .expect("found");
    assert_eq!(rest.len(), 2);
    assert!(
        rest.iter()
            .all(|one| one.position == 0 && one.digest.is_empty())
    );
}

#[tokio::test]
async fn p10_an_export_from_where_no_record_is_is_refused() {
    let db = TestDb::create().await;
    let pool = db.pool(ROLE).await;
    write(&pool, "user:a").await;
    seal_all(&pool).await;
    let mut conn = pool.acquire().await.expect("a connection");
    for after_position in [-1, 2] {
        let request = ExportAuditRecordsRequest {
            after_position,
            ..Default::default()
        };
        let error = read::export(&mut conn, &request)
            .await
            .expect_err("refused");
        assert_eq!(error.fields()[0].0, "after_position", "{after_position}");
    }
    let request = ExportAuditRecordsRequest {
        after_position: 1,
        ..Default::default()
    };
    let end = read::export(&mut conn, &request).await.expect("the end");
    assert!(end.records.is_empty());
    assert_eq!(end.start, end.head);
}
