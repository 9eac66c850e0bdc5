//! Every migration from an empty database, twice, and what must be refused.
use std::collections::BTreeMap;

use gpuaas_migrations::{
    Error, SCHEMAS, apply, apply_all, bootstrap_roles, create_database, latest_version, roles,
};
use sqlx::{AssertSqlSafe, Executor as _};

use crate::empty::Empty;

#[tokio::test]
async fn all_migrations_apply_from_empty_and_again() {
    let empty = Empty::new().await;
    let mut owner = empty.owner().await;
    apply_all(&mut owner).await.expect("from empty");
    apply_all(&mut owner).await.expect("nothing to do");
    let path: String = sqlx::query_scalar("SELECT current_setting('search_path')")
        .fetch_one(&mut owner)
        .await
        .expect("path");
    assert_eq!(
        path, "\"$user\", public",
        "the caller's search path is back"
    );
    for schema in SCHEMAS {
        let recorded: i64 = sqlx::query_scalar(AssertSqlSafe(format!(
            "SELECT coalesce(max(version), 0) FROM {}._sqlx_migrations",
            schema.name
        )))
        .fetch_one(&mut owner)
        .await
        .expect("own migration table");
        assert_eq!(
            recorded,
            latest_version(schema.name).expect("known"),
            "{}",
            schema.name
        );
        for table in ["idempotency", "audit"] {
            let exists: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
                .bind(format!("{}.{table}", schema.name))
                .fetch_one(&mut owner)
                .await
                .expect("lookup");
            assert!(exists, "{}.{table}", schema.name);
        }
    }
    assert!(matches!(
        apply(&mut owner, "nothing").await,
        Err(Error::UnknownSchema(_))
    ));
    drop(owner);
    empty.drop_it().await;
}

#[tokio::test]
async fn two_migrators_at_once_are_one() {
    let empty = Empty::new().await;
    let (mut first, mut second) = (empty.owner().await, empty.owner().await);
    let (a, b) = tokio::join!(apply_all(&mut first), apply_all(&mut second));
    a.expect("first");
    b.expect("second");
    drop((first, second));
    empty.drop_it().await;
}

#[tokio::test]
async fn a_script_that_changed_after_it_was_applied_is_refused() {
    let empty = Empty::new().await;
    let mut owner = empty.owner().await;
    apply(&mut owner, "placement").await.expect("apply");
    owner
        .execute("UPDATE placement._sqlx_migrations SET checksum = '\\x00' WHERE version = 1")
        .await
        .expect("tamper");
    assert!(matches!(
        apply(&mut owner, "placement").await,
        Err(Error::Migrate {
            schema: "placement",
            ..
        })
    ));
    drop(owner);
    empty.drop_it().await;
}

#[tokio::test]
async fn roles_need_their_passwords_and_databases_plain_names() {
    let mut empty = Empty::new().await;
    let mut passwords: BTreeMap<String, String> = roles::all()
        .map(|role| (role.to_owned(), "test".to_owned()))
        .collect();
    passwords.remove("gpuaas_billing");
    let missing = bootstrap_roles(&mut empty.superuser, &passwords).await;
    assert!(matches!(
        missing,
        Err(Error::PasswordMissing("gpuaas_billing"))
    ));
    for name in ["", "Gpuaas", "1st", "a-b", "a;drop", &"x".repeat(64)] {
        assert!(
            matches!(
                create_database(&mut empty.superuser, name).await,
                Err(Error::BadIdentifier(_))
            ),
            "{name}"
        );
    }
    let powerful: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'gpuaas\\_%' AND (rolsuper OR rolcreatedb OR rolcreaterole OR rolbypassrls)",
    )
    .fetch_one(&mut empty.superuser)
    .await
    .expect("roles");
    assert_eq!(powerful, 0);
    empty.drop_it().await;
}
