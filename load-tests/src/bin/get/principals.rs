//! What many principals cost: the first call of one that the gateway does not remember, with few and with 100,000 others
//! registered, and the memory of a gateway that many of them call.
use std::net::SocketAddr;
use std::time::Instant;

use futures::future::try_join_all;
use gpuaas_dev::stack;
use gpuaas_gateway::auth::api_keys::{ApiKey, SECRET_BYTES};
use gpuaas_load_tests::http::Connection;
use gpuaas_load_tests::measure::{memory_kib, percentile};
use gpuaas_load_tests::system::{GATEWAY, System};
use sqlx::PgPool;
use uuid::Uuid;

/// Nobody signs in by it.
const ISSUER: &str = "bench";
/// Users who are registered, all in one project.
const USERS: i32 = 100_000;
/// Service accounts that call, each with a key of its own.
const CALLING: usize = 10_000;
/// Of them, those whose first call is timed, with few users and with all.
const TIMED: usize = 500;
/// Connections of those whose calls are not timed.
const CALLERS: usize = 16;

/// Prints the table.
///
/// # Errors
/// The database, or the gateway, refuses.
pub async fn measure(system: &System<'_>, gateway: SocketAddr, path: &str) -> anyhow::Result<()> {
    let options = system
        .stack
        .postgres()?
        .options("postgres", stack::DATABASE);
    let pool = PgPool::connect_with(options).await?;
    let project: Uuid = system.project.parse()?;
    // a run that was broken off left them
    clear(&pool).await?;
    let keys = accounts(&pool, project, system.stack.options().cell).await?;
    let (few, rest) = keys.split_at(TIMED);
    let (many, rest) = rest.split_at(TIMED);
    let process = system.process(GATEWAY).await?;
    let row = |registered: &str, first: String| {
        println!(
            "| {registered} | {first} | {:.1} |",
            memory_kib(&process) / 1024.0
        );
    };
    println!("\n| registered | first call p50, ms | gateway, MiB |\n|---|---|---|");
    let first = first_calls(gateway, path, few).await?;
    row(
        &format!("{CALLING} service accounts"),
        format!("{first:.2}"),
    );
    users(&pool, project).await?;
    let first = first_calls(gateway, path, many).await?;
    row(&format!("{USERS} users more"), format!("{first:.2}"));
    let begun = Instant::now();
    let shares = rest.chunks(rest.len().div_ceil(CALLERS));
    try_join_all(shares.map(async |keys| first_calls(gateway, path, keys).await)).await?;
    let rate = rest.len() as f64 / begun.elapsed().as_secs_f64();
    row(
        &format!("the same, once {CALLING} have called"),
        format!("{rate:.0} first calls a second"),
    );
    clear(&pool).await
}

/// The median of first calls, one after the other, in milliseconds.
async fn first_calls(gateway: SocketAddr, path: &str, keys: &[ApiKey]) -> anyhow::Result<f64> {
    let mut connection = Connection::open(gateway).await?;
    let mut times = Vec::with_capacity(keys.len());
    for key in keys {
        let begun = Instant::now();
        connection.read(path, key.reveal()).await?;
        times.push(begun.elapsed());
    }
    times.sort();
    Ok(percentile(&times, 50))
}

/// Service accounts of the project that may read, with a key each; each key has its account's id.
async fn accounts(pool: &PgPool, project: Uuid, cell: u16) -> anyhow::Result<Vec<ApiKey>> {
    let made = (0..CALLING).map(|_| {
        let mut secret = [0; SECRET_BYTES];
        for half in secret.chunks_mut(16) {
            half.copy_from_slice(Uuid::new_v4().as_bytes());
        }
        ApiKey::new(cell, Uuid::now_v7(), &secret)
    });
    let keys: Vec<ApiKey> = made.collect();
    let ids: Vec<Uuid> = keys.iter().map(|key| key.id).collect();
    let hashes: Vec<Vec<u8>> = keys.iter().map(|key| key.hash().to_vec()).collect();
    let mut tx = pool.begin().await?;
    sqlx::query(
        "INSERT INTO edge.principals (id, name, issuer, subject, display_name, kind)
         SELECT id, 'service:bench.' || id, $2, id::text, '', 'service' FROM unnest($1::uuid[]) id",
    )
    .bind(&ids)
    .bind(ISSUER)
    .execute(&mut *tx)
    .await?;
    sqlx::query(
        "INSERT INTO edge.service_accounts (principal_id, project_id, slug, description, creator)
         SELECT id, $2, id::text, '', 'bench' FROM unnest($1::uuid[]) id",
    )
    .bind(&ids)
    .bind(project)
    .execute(&mut *tx)
    .await?;
    sqlx::query(
        "INSERT INTO edge.api_keys (id, principal_id, display_name, hash, scopes, creator)
         SELECT id, id, '', hash, '{read}', 'bench' FROM unnest($1::uuid[], $2::bytea[]) k (id, hash)",
    )
    .bind(&ids)
    .bind(&hashes)
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    members(pool, project).await?;
    Ok(keys)
}

/// Users of the project.
async fn users(pool: &PgPool, project: Uuid) -> anyhow::Result<()> {
    sqlx::query(
        "INSERT INTO edge.principals (id, name, issuer, subject, display_name)
         SELECT gen_random_uuid(), 'user:bench.' || n, $2, n::text, '' FROM generate_series(1, $1) n",
    )
    .bind(USERS)
    .bind(ISSUER)
    .execute(pool)
    .await?;
    members(pool, project).await
}

/// Whoever of them is in no project is in this one from now on.
async fn members(pool: &PgPool, project: Uuid) -> anyhow::Result<()> {
    sqlx::query(
        "INSERT INTO edge.memberships (principal_id, project_id, role)
         SELECT id, $1, 'viewer' FROM edge.principals WHERE issuer = $2
         ON CONFLICT (principal_id, project_id) DO NOTHING",
    )
    .bind(project)
    .bind(ISSUER)
    .execute(pool)
    .await?;
    sqlx::query("ANALYZE edge.principals, edge.memberships, edge.service_accounts, edge.api_keys")
        .execute(pool)
        .await?;
    Ok(())
}

/// All of them go, for the next run begins with few.
async fn clear(pool: &PgPool) -> anyhow::Result<()> {
    for (table, column) in [
        ("api_keys", "principal_id"),
        ("service_accounts", "principal_id"),
        ("memberships", "principal_id"),
        ("principals", "id"),
    ] {
        let statement = format!(
            "DELETE FROM edge.{table} WHERE {column} IN (SELECT id FROM edge.principals WHERE issuer = $1)"
        );
        sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(ISSUER)
            .execute(pool)
            .await?;
    }
    Ok(())
}
