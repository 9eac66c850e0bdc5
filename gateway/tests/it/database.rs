//! The schema `edge` as the gateway's own role: what it holds, and what the role may not do.
use std::sync::Arc;
use std::time::Duration;

use gpuaas_common::CancellationToken;
use gpuaas_common::id::IdGen;
use gpuaas_dev::postgres::{TestDb, Vanishing};
use gpuaas_dev::until::until;
use gpuaas_gateway::auth::sessions::{Mark, Session, Sessions};
use gpuaas_gateway::auth::verify::Identity;
use gpuaas_gateway::store::{self, NewPrincipal, Principal, Role, seed};

const PRINCIPALS: [NewPrincipal<'static>; 2] = [
    NewPrincipal {
        name: "user:admin",
        subject: "admin",
        admin: true,
    },
    NewPrincipal {
        name: "user:demo",
        subject: "demo",
        admin: false,
    },
];

fn identity(subject: &str) -> Identity {
    Identity {
        issuer: "i".to_owned(),
        subject: subject.to_owned(),
        ..Identity::default()
    }
}

#[tokio::test]
async fn seeding_twice_changes_nothing() {
    let db = TestDb::create().await;
    let pool = db.pool("gpuaas_edge").await;
    let ids = IdGen::new(1);
    let first = seed(&pool, &ids, "i", "lab", "demo", &PRINCIPALS)
        .await
        .expect("seeded");
    assert_eq!(first.created, 6);
    let again = seed(&pool, &ids, "i", "lab", "demo", &PRINCIPALS)
        .await
        .expect("seeded");
    assert_eq!((again.created, again.project_id), (0, first.project_id));
    let other = seed(&pool, &ids, "i", "lab", "second", &PRINCIPALS)
        .await
        .expect("seeded");
    assert_eq!(other.created, 3, "a project and two memberships");
    let principal = store::find_principal(&pool, &identity("demo"))
        .await
        .expect("found");
    let principal = principal.expect("registered");
    let roles = [first.project_id, other.project_id].map(|project| (project, Role::Owner));
    let expected = Principal {
        id: principal.id,
        name: "user:demo".to_owned(),
        roles: roles.to_vec(),
        owners: vec![first.organisation_id; 2],
        ..Principal::default()
    };
    assert_eq!(principal, expected);
    assert_eq!(
        store::find_principal(&pool, &identity("nobody"))
            .await
            .expect("asked"),
        None
    );
    assert_eq!(
        store::subject_of(&pool, "i", "user:admin")
            .await
            .expect("asked")
            .as_deref(),
        Some("admin")
    );
    assert!(store::is_reachable(&pool).await);
}

#[tokio::test]
async fn statements_that_the_database_refuses() {
    let db = TestDb::create().await;
    let pool = db.pool("gpuaas_edge").await;
    seed(&pool, &IdGen::new(1), "i", "lab", "demo", &PRINCIPALS)
        .await
        .expect("seeded");
    for statement in [
        // a program administers nothing, and roles are those of the list
        "UPDATE principals SET platform_admin = true",
        "UPDATE principals SET platform_role = 'root'",
        "UPDATE principals SET kind = 'service'",
        "INSERT INTO principals (id, name, issuer, subject, display_name, kind, platform_role) VALUES (gen_random_uuid(), 'service:x', 'i', 'x', '', 'service', 'admin')",
        "INSERT INTO principals (id, name, issuer, subject, display_name, kind) VALUES (gen_random_uuid(), 'user:x', 'i', 'x', '', 'service')",
        "UPDATE memberships SET role = 'king'",
        "UPDATE memberships SET principal_id = gen_random_uuid()",
        "DELETE FROM organisations",
        "DELETE FROM invitations",
        "UPDATE projects SET state = 'gone'",
        "UPDATE projects SET suspended_by_platform = true",
        "UPDATE principals SET subject = 'admin2' WHERE subject = 'demo'",
        "UPDATE principals SET scim_organisation_id = (SELECT id FROM organisations LIMIT 1)",
        "DELETE FROM principals",
        "DELETE FROM projects",
        "UPDATE projects SET organisation_id = gen_random_uuid()",
        "UPDATE audit SET principal = 'x'",
        "DELETE FROM audit",
        "TRUNCATE audit",
        // a key says what it is good for, and is its account's; its digest never changes
        "INSERT INTO service_accounts (principal_id, project_id, slug, description, creator) VALUES (gen_random_uuid(), gen_random_uuid(), 'x', '', '')",
        "INSERT INTO api_keys (id, principal_id, display_name, hash, scopes, creator) SELECT gen_random_uuid(), id, '', sha256('x'), '{read}', '' FROM principals LIMIT 1",
        "UPDATE scim_settings SET organisation_id = gen_random_uuid()",
        "DELETE FROM scim_settings",
        "UPDATE scim_users SET principal_id = gen_random_uuid()",
        "UPDATE scim_group_mappings SET role = 'owner'",
        "UPDATE api_keys SET hash = sha256('x')",
        "UPDATE api_keys SET scopes = '{manage}'",
        "DELETE FROM api_keys",
        "DELETE FROM service_accounts",
        // one identity is one principal, and names are of a known form
        "INSERT INTO principals (id, name, issuer, subject, display_name) VALUES (gen_random_uuid(), 'user:twin', 'i', 'demo', '')",
        "INSERT INTO principals (id, name, issuer, subject, display_name) VALUES (gen_random_uuid(), 'user:demo', 'i', 'x', '')",
        "INSERT INTO principals (id, name, issuer, subject, display_name) VALUES (gen_random_uuid(), 'root', 'i', 'x', '')",
        "INSERT INTO principals (id, name, issuer, subject, display_name) VALUES (gen_random_uuid(), 'user:x', '', 'x', '')",
        "INSERT INTO projects (id, organisation_id, slug, display_name) VALUES (gen_random_uuid(), gen_random_uuid(), 'x', '')",
        "INSERT INTO organisations (id, slug, display_name) VALUES (gen_random_uuid(), 'Not A Label', '')",
        "INSERT INTO memberships (principal_id, project_id, role) VALUES (gen_random_uuid(), gen_random_uuid(), 'owner')",
        // other contexts
        "SELECT * FROM billing.usage_intervals",
        "SELECT * FROM inventory.nodes",
        "CREATE TABLE edge.mine (id int)",
    ] {
        assert!(
            sqlx::query(statement).execute(&pool).await.is_err(),
            "{statement}"
        );
    }
}

/// Keeps a session as a request does. Says whether it is kept.
async fn keep(sessions: &Sessions, pool: &sqlx::PgPool) -> (Mark, bool) {
    let mark = sessions.mark();
    let demo = identity("demo");
    let found = store::find_principal(pool, &demo).await.expect("found");
    let session = Session::new(demo, found.expect("registered"));
    sessions.keep("token", mark, &Arc::new(session));
    (mark, sessions.get("token", -1).is_some())
}

#[tokio::test]
async fn a_change_of_access_empties_what_gateways_keep_of_callers() {
    let db = TestDb::create().await;
    let pool = db.pool("gpuaas_edge").await;
    seed(&pool, &IdGen::new(1), "i", "lab", "demo", &PRINCIPALS)
        .await
        .expect("seeded");
    let sessions = Arc::new(Sessions::default());
    let shutdown = CancellationToken::new();
    let (listening, of, cancelled) = (sessions.clone(), pool.clone(), shutdown.clone());
    let task = tokio::spawn(async move { listening.listen(of, cancelled).await });
    let soon = Duration::from_secs(30);
    sqlx::query("INSERT INTO organisations (id, slug, display_name) VALUES (gen_random_uuid(), 'other', '')")
        .execute(&pool)
        .await
        .expect("another organisation");
    // what concerns others drops nothing
    for (change, drops) in [
        ("UPDATE projects SET state = 'suspended'", true),
        (
            "UPDATE organisations SET state = 'suspended' WHERE slug = 'other'",
            false,
        ),
        (
            "INSERT INTO projects (id, organisation_id, slug, display_name) SELECT gen_random_uuid(), id, 'p', '' FROM organisations WHERE slug = 'other'",
            false,
        ),
        (
            "INSERT INTO projects (id, organisation_id, slug, display_name) SELECT gen_random_uuid(), id, 'p', '' FROM organisations WHERE slug = 'lab'",
            true,
        ),
        (
            "UPDATE organisations SET state = 'suspended' WHERE slug = 'lab'",
            true,
        ),
        (
            "INSERT INTO logouts (issuer, jti, subject, issue_time, expire_time) VALUES ('i', '1', 'admin', now(), now())",
            false,
        ),
        (
            "INSERT INTO logouts (issuer, jti, subject, issue_time, expire_time) VALUES ('i', '2', 'demo', now(), now())",
            true,
        ),
        (
            "INSERT INTO logouts (issuer, jti, sid, issue_time, expire_time) VALUES ('i', '3', 's', now(), now())",
            true,
        ),
        ("DELETE FROM memberships", true),
        (
            "UPDATE principals SET disable_time = now() WHERE subject = 'admin'",
            false,
        ),
        (
            "UPDATE principals SET disable_time = now() WHERE subject = 'demo'",
            true,
        ),
    ] {
        let mark = until("a session that is kept", soon, async || {
            let (mark, kept) = keep(&sessions, &pool).await;
            kept.then_some(mark)
        })
        .await;
        sqlx::query(change).execute(&pool).await.expect(change);
        until(change, soon, async || {
            (sessions.mark() != mark).then_some(())
        })
        .await;
        // of several notifications the first may be about somebody else
        until(change, soon, async || {
            (!drops || sessions.get("token", -1).is_none()).then_some(())
        })
        .await;
        assert_eq!(sessions.get("token", -1).is_none(), drops, "{change}");
    }
    shutdown.cancel();
    task.await.expect("ended");
}

/// Before, it waited for ever: nobody closes the connections to a host without power.
#[tokio::test]
async fn p8_changes_of_access_are_heard_again_after_the_host_of_the_database_vanished() {
    let db = TestDb::create().await;
    let pool = db.pool("gpuaas_edge").await;
    seed(&pool, &IdGen::new(1), "i", "lab", "demo", &PRINCIPALS)
        .await
        .expect("seeded");
    let folder = tempfile::tempdir().expect("a folder");
    let (host, options) = Vanishing::to(db.options("gpuaas_edge"), folder.path()).expect("a way");
    // as the gateway's: one connection
    let listened = gpuaas_common::db::sized(1)
        .acquire_timeout(Duration::from_secs(5))
        .connect_lazy_with(options);
    let sessions = Arc::new(Sessions::default());
    let shutdown = CancellationToken::new();
    let (listening, cancelled) = (sessions.clone(), shutdown.clone());
    let task = tokio::spawn(async move { listening.listen(listened, cancelled).await });
    let soon = Duration::from_secs(60);
    let hears = async |what: &str| {
        until(what, soon, async || {
            // kept only while changes are heard
            if !keep(&sessions, &pool).await.1 {
                return None;
            }
            sqlx::query("UPDATE memberships SET role = role")
                .execute(&pool)
                .await
                .expect("a change");
            let dropped = async || sessions.get("token", -1).is_none().then_some(());
            let heard = tokio::time::timeout(Duration::from_secs(1), until(what, soon, dropped));
            heard.await.ok()
        })
        .await;
    };
    hears("changes").await;
    host.vanish();
    // its loss is a change, too
    let mark = sessions.mark();
    until("the loss", soon, async || {
        (sessions.mark() != mark).then_some(())
    })
    .await;
    hears("changes again").await;
    shutdown.cancel();
    task.await.expect("ended");
}

/// A load balancer gets an answer, and nobody waits behind a database that gives none.
#[tokio::test]
async fn a_database_that_answers_nothing_is_not_reachable() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join(".s.PGSQL.5432");
    let _silent = tokio::net::UnixListener::bind(socket).expect("bound");
    let options = sqlx::postgres::PgConnectOptions::new_without_pgpass()
        .socket(folder.path())
        .port(5432)
        .username("gpuaas_edge");
    let pool = gpuaas_common::db::sized(1).connect_lazy_with(options);
    let asked = tokio::time::timeout(Duration::from_secs(15), store::is_reachable(&pool));
    assert!(!asked.await.expect("an answer"));
}
