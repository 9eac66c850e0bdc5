//! The peers: what PostgreSQL can do at best, by pgbench.
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use gpuaas_dev::postgres::Server;
use sqlx::Executor as _;

/// As many rows of the same size in plain tables: no constraint but keys, no trigger, no decision. Written as a script of
/// pgbench.
pub async fn plain(server: &Server, database: &str, root: &Path) -> anyhow::Result<String> {
    server
        .superuser(database)
        .await?
        .execute(
            "DROP SCHEMA IF EXISTS peer CASCADE; CREATE SCHEMA peer;
             CREATE TABLE peer.nodes (id int PRIMARY KEY, body text);
             CREATE TABLE peer.slots (id int PRIMARY KEY, node_id int, status text, generation int, body text);
             CREATE TABLE peer.rows (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), kind text, body text);
             INSERT INTO peer.nodes SELECT n, repeat('x', 300) FROM generate_series(1, 10000) n;
             INSERT INTO peer.slots SELECT s, 1 + s % 10000, 'available', 0, repeat('x', 300) FROM generate_series(1, 80000) s;
             ANALYZE",
        )
        .await?;
    let row = |kind: &str, bytes: u32| {
        format!("INSERT INTO peer.rows (kind, body) VALUES ('{kind}', repeat('x', {bytes}));\n")
    };
    // what a reservation writes: quota, allocation, claim, event, workflow, timeline and its head, audit, key
    let rows: String = [
        ("quota", 40),
        ("allocation", 700),
        ("claim", 700),
        ("event", 600),
        ("workflow", 150),
        ("timeline", 150),
        ("head", 20),
        ("audit", 300),
        ("key", 150),
    ]
    .iter()
    .map(|(kind, bytes)| row(kind, *bytes))
    .collect();
    let script = format!(
        "\\set node random(1, 10000)\n\\set slot :node + 10000 * random(0, 7)\nBEGIN;\n\
         SELECT pg_advisory_xact_lock(hashtextextended(gen_random_uuid()::text, 0));\n\
         SELECT * FROM peer.nodes WHERE id = :node FOR NO KEY UPDATE;\n\
         SELECT * FROM peer.slots WHERE id = :slot FOR NO KEY UPDATE;\n\
         UPDATE peer.slots SET status = 'reserved', generation = generation + 1 WHERE id = :slot;\n{rows}COMMIT;\n"
    );
    let file = root.join("peer.sql");
    std::fs::write(&file, script)?;
    Ok(file.display().to_string())
}

/// The ledger's own rows in its own tables, which keep its promises: nothing is read, decided or counted, and which slot
/// is taken was chosen before. Written as a script of pgbench; [`give_back`] makes what it took free again.
pub async fn own_tables(server: &Server, database: &str, root: &Path) -> anyhow::Result<String> {
    server
        .superuser(database)
        .await?
        .execute(
            "CREATE TABLE peer.free AS
               SELECT row_number() OVER (ORDER BY s.slot_index, s.id) AS number, s.id AS slot_id, s.node_id
                 FROM placement.slots s WHERE s.status = 'available';
             ALTER TABLE peer.free ADD PRIMARY KEY (number);
             CREATE SEQUENCE peer.next",
        )
        .await?;
    let file = root.join("own-tables.sql");
    std::fs::write(&file, include_str!("own-tables.sql"))?;
    Ok(file.display().to_string())
}

/// Takes back what the peer in the ledger's tables has reserved.
pub async fn give_back(server: &Server, database: &str) -> anyhow::Result<()> {
    server
        .superuser(database)
        .await?
        .execute(
            "SET session_replication_role = replica;
             SET search_path = placement;
             CREATE TEMPORARY TABLE gone AS
               SELECT a.id, c.slot_id, c.node_id FROM allocations a JOIN claims c ON c.allocation_id = a.id
                WHERE a.principal = 'peer';
             UPDATE slots s SET status = 'available', generation = generation - 1 FROM gone WHERE s.id = gone.slot_id;
             UPDATE node_slot_changes SET changed_by = pg_current_xact_id() WHERE node_id IN (SELECT node_id FROM gone);
             DELETE FROM claims c USING gone WHERE c.allocation_id = gone.id;
             DELETE FROM workflows w USING gone WHERE w.allocation_id = gone.id;
             DELETE FROM timeline t USING gone WHERE t.allocation_id = gone.id;
             DELETE FROM timeline_heads t USING gone WHERE t.allocation_id = gone.id;
             DELETE FROM allocations a USING gone WHERE a.id = gone.id;
             SELECT setval('peer.next', 1, false);
             DELETE FROM peer.free;
             INSERT INTO peer.free
               SELECT row_number() OVER (ORDER BY slot_index, id), id, node_id FROM slots WHERE status = 'available'",
        )
        .await?;
    Ok(())
}

/// Transactions of a script a second.
pub fn run(
    server: &Server,
    database: &str,
    script: &str,
    clients: usize,
    seconds: u64,
) -> anyhow::Result<f64> {
    let output = Command::new("pgbench")
        .env(
            "PGOPTIONS",
            "--search_path=placement --plan_cache_mode=force_generic_plan --jit=off",
        )
        .args([
            "--no-vacuum",
            "--protocol=prepared",
            "--jobs=2",
            "--username=postgres",
        ])
        .args([
            "--client",
            &clients.to_string(),
            "--time",
            &seconds.to_string(),
        ])
        .args([
            "--file",
            script,
            "--port",
            &server.port().to_string(),
            "--host",
        ])
        .arg(server.folder())
        .arg(database)
        .output()
        .context("pgbench is part of Debian's postgresql")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let tps = text.lines().find_map(|line| line.strip_prefix("tps = "));
    tps.and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .with_context(|| format!("pgbench: {text}{}", String::from_utf8_lossy(&output.stderr)))
}
