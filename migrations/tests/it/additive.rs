//! Applying a release's scripts to the data of the release before keeps all of it (B-34).
use std::fs;
use std::path::{Path, PathBuf};

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use crate::empty::Empty;

/// Scripts up to this version are the baseline: no database was ever between two of them.
const BASELINE: u32 = 4;

/// A row in every table of the baseline: a region that offers a slice on two slots, somebody who has one, somebody who is
/// queued, a capacity reservation, and all that is written on the way.
const ROWS: &str = "
INSERT INTO regions VALUES ('r-1', true);
INSERT INTO skus (code, display_name, capacity_shape, slot_class, allowed_gpu_counts, profile_name, vcpus_per_gpu,
                  memory_mib_per_gpu, hugepages, price_version_id, price_currency, price_nanos, price_effective_at)
VALUES ('h200-sxm-slice', 'Slice', 'gpu_slice', 'h200_sxm', '{1,2}', 'h200_1g_24c_64g', 24, 65536, true, ID(9), 'USD', 1, now());
INSERT INTO quotas VALUES (ID(1), 'h200-sxm-slice', 8);
INSERT INTO project_quotas VALUES (ID(1), 5);
INSERT INTO nodes (id, hostname, region_code, mode, agent_address, instance_id, schedulable, hugepages_1g_free, max_vms,
                   legal_groups, lab, host_health, admin_reason, admin_at, intended_mode)
VALUES (ID(2), 'n-1', 'r-1', 'slice', '10.0.0.1:7110', ID(3), true, 900, 4, '[[1,2]]', false, 'healthy',
        'fan', now(), 'slice');
INSERT INTO node_slot_changes (node_id) VALUES (ID(2));
INSERT INTO slots (id, node_id, slot_index, class, status, generation, clean_generation, host_health, gpu_pci_address,
                   gpu_module_id, numa_node, nvme_device, storage_identity_kind, nvme_bytes, management_mac, private_ip,
                   fabric_device, fabric_vf_pci_address, fabric_claim_mode, destructive_wipe_policy)
SELECT ID(10 + n), ID(2), n, 'h200_sxm', CASE n WHEN 0 THEN 'active' ELSE 'available' END, 1 - n, 0, 'healthy',
       '0000:1' || n || ':00.0', n, 0, '/dev/disk/by-id/nvme-' || n, 'nvme_wwn_by_id', 4096, '52:54:00:00:00:0' || n,
       '10.0.1.' || n, '0000:1a:00.0', '0000:1a:00.' || n, 'per_slot_vf', 'blkdiscard' FROM generate_series(0, 1) AS n;
INSERT INTO clean_evidence (slot_id, generation, kind, method) SELECT id, 0, 'approved', 'raw' FROM slots;
INSERT INTO allocations (id, project_id, name, region_code, sku, gpu_count, capacity_shape, node_id, state, power, image,
                         ssh_public_keys, labels, guest_user, access, lab, price, principal, request_id, traceparent,
                         active_at, releasing_at, ended_at)
SELECT ID(20 + n), ID(1), 'a-' || n, 'r-1', 'h200-sxm-slice', 1, 'gpu_slice', ID(2),
       (ARRAY['active', 'released'])[n + 1], (ARRAY['running'])[n + 1], '{\"slug\": \"i\"}', '{ssh-ed25519 A}', '{\"k\": \"v\"}',
       'u_0123456789abcdef', '{}', false, '{}', 'user:a', 'req', 'tp', now(), (ARRAY[NULL, now()])[n + 1],
       (ARRAY[NULL, now()])[n + 1] FROM generate_series(0, 1) AS n;
INSERT INTO claims (id, allocation_id, sku, kind, node_id, slot_id, slot_class, slot_generation, state, snapshot, released_at)
SELECT ID(30 + n), ID(20 + n), 'h200-sxm-slice', 'slot', ID(2), ID(10 + n), 'h200_sxm', 1 - n,
       (ARRAY['active', 'released'])[n + 1], '{}', (ARRAY[NULL, now()])[n + 1] FROM generate_series(0, 1) AS n;
INSERT INTO allocation_periods VALUES (ID(40), ID(20), ID(1), 'h200-sxm-slice', 1, '{}', now());
INSERT INTO outbox (position, type, aggregate_id, revision, at, data) VALUES (1, 'allocation.active', ID(20), 1, now(), '{}');
UPDATE outbox_head SET position = 1;
INSERT INTO idempotency VALUES ('user:a', 'M', 'k', decode(repeat('00', 32), 'hex'), 'id');
INSERT INTO audit (id, principal, action, resource, resource_id, request_id) VALUES (ID(50), 'user:a', 'x', 'slot', 'id', 'r');
INSERT INTO workflows (id, kind, allocation_id, state, deadline_at, ended_at)
VALUES (ID(60), 'provision', ID(20), 'done', now(), now()), (ID(61), 'release', ID(21), 'done', now(), now());
INSERT INTO workflow_steps (workflow_id, step, state, lease_epoch, ended_at) VALUES (ID(60), 'activate', 'done', 1, now());
INSERT INTO node_tasks (id, type, workflow_id, allocation_id, node_id, state, ended_at)
VALUES (ID(62), 'slice.vm_provision', ID(60), ID(20), ID(2), 'done', now());
INSERT INTO timeline_heads VALUES (ID(20), 1, 1);
INSERT INTO timeline (allocation_id, sequence, change, step, state, ended_at)
VALUES (ID(20), 1, 1, 'reserve', 'done', now());
INSERT INTO project_priorities VALUES (ID(1), 'high');
INSERT INTO allocations (id, project_id, name, region_code, sku, gpu_count, capacity_shape, state, image, ssh_public_keys,
                         guest_user, lab, principal, request_id, traceparent, deadline_at, constraints)
VALUES (ID(22), ID(1), 'a-2', 'r-1', 'h200-sxm-slice', 2, 'gpu_slice', 'requested', '{}', '{ssh-ed25519 A}',
        'u_0123456789abcdef', false, 'user:a', 'req', 'tp', now() + interval '1 hour',
        '{\"require_prewarmed\": true}');
INSERT INTO queued_allocations VALUES (ID(22), ID(23), 'h200_sxm', 'SLOTS_IN_USE');
INSERT INTO fair_share VALUES ('r-1', 'h200_sxm', ID(1), 7);
INSERT INTO backfill_reservations VALUES ('r-1', 'h200_sxm', ID(2), ID(23));
INSERT INTO capacity_samples VALUES ('2026-01-01 00:00Z', 'r-1', 'h200-sxm-slice', 1, 2, 1, 1);
INSERT INTO reservation_limits VALUES (ID(1), 4);
INSERT INTO capacity_reservations (id, project_id, name, region_code, sku, gpu_count, starts_at, ends_at, state,
                                   made_by_project, principal)
VALUES (ID(70), ID(1), 'c', 'r-1', 'h200-sxm-slice', 1, now(), now() + interval '1 hour', 'active', true, 'user:a');
INSERT INTO reserved_slots VALUES (ID(11), ID(2), ID(70), ID(1), 64);
";

/// Rows of the tables that later scripts add, by version of the script.
const LATER: [(u32, &str); 8] = [(
    10,
    "INSERT INTO force_releases (allocation_id, node_id, instance_id, principal, host_fate, reason)
     VALUES (ID(20), ID(2), ID(3), 'user:a', 'powered_off', 'r');
     INSERT INTO node_visits (node_id, owner) VALUES (ID(2), 'a');",
), (
    11,
    "INSERT INTO node_history (node_id, state, reason, principal) VALUES (ID(2), 'cordoned', 'fan', 'user:a');
     INSERT INTO slot_history (slot_id, kind, health, detail, principal) VALUES (ID(10), 'health', 'failed', 'fan', '');
     INSERT INTO break_fixes (id, node_id, slot_id, fault, opened_by) VALUES (ID(80), ID(2), ID(10), 'fan', 'user:a');
     INSERT INTO break_fix_actions (break_fix_id, principal, action) VALUES (ID(80), 'user:a', 'replaced');
     INSERT INTO node_findings (id, node_id, source, code, device, severity, message, reported_by)
     VALUES (ID(81), ID(2), 'dcgm', 'XID_79', '', 'critical', 'm', 'user:a');",
), (
    13,
    "INSERT INTO slot_health_events (slot_id, node_id, health, started_at) VALUES (ID(10), ID(2), 'degraded', now())",
), (
    15,
    "INSERT INTO project_networks (project_id, vms_reach_each_other) VALUES (ID(1), true)",
), (
    26,
    "INSERT INTO ingress_owners VALUES (ID(2), '203.0.113.7', 30000, 30999);
     INSERT INTO ingress_mappings (id, project_id, allocation_id, node_id, protocol, vm_port, requested_port,
                                   external_address, external_port, sources, creator)
     VALUES (ID(90), ID(1), ID(20), ID(2), 'tcp', 22, 0, '203.0.113.7', 30000, '{10.0.0.0/8}', 'user:a')",
), (
    27,
    "INSERT INTO allocation_user_data (allocation_id, user_data) VALUES (ID(22), '#cloud-config')",
), (
    28,
    "INSERT INTO agent_starts (node_id, started_at) VALUES (ID(2), '2026-01-01 00:00Z')",
), (
    32,
    "INSERT INTO project_suspensions (project_id, suspended, version) VALUES (ID(1), true, 2)",
)];

/// Columns of all tables of the ledger with their types.
const COLUMNS: &str = "SELECT table_name || '.' || column_name || ' ' || udt_name FROM information_schema.columns
     WHERE table_schema = $1 AND table_name IN
       (SELECT table_name FROM information_schema.tables WHERE table_schema = $1 AND table_type = 'BASE TABLE')
     ORDER BY 1";

/// Copies every table into schema `kept`, as it is.
const KEEP: &str = "DROP SCHEMA IF EXISTS kept CASCADE; CREATE SCHEMA kept;
    DO $$ DECLARE t text; BEGIN
        FOR t IN SELECT table_name FROM information_schema.tables
                  WHERE table_schema = 'placement' AND table_type = 'BASE TABLE' LOOP
            EXECUTE format('CREATE TABLE kept.%I AS SELECT * FROM placement.%I', t, t);
        END LOOP;
    END $$";

/// The scripts of a folder in their order, with their versions.
pub(super) fn scripts(folder: &str) -> Vec<(u32, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(folder).expect("the scripts");
    let mut found: Vec<(u32, PathBuf)> = files
        .map(|file| {
            let path = file.expect("an entry").path();
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            let version = name.split('_').next().expect("a version");
            (version.parse().expect("a number"), path)
        })
        .collect();
    found.sort();
    found
}

pub(super) async fn run(conn: &mut PgConnection, sql: &str, what: &str) {
    let done = conn.execute(AssertSqlSafe(sql.to_owned())).await;
    done.unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// Rows as an older release left them, whatever guards and keys of this one say: checks and types hold nevertheless.
async fn fill(superuser: &mut PgConnection, rows: &str, what: &str) {
    let mut sql = "SET session_replication_role = replica; SET search_path = placement;".to_owned();
    // ID(7) is an id
    let mut rest = rows;
    while let Some((before, after)) = rest.split_once("ID(") {
        let (number, after) = after.split_once(')').expect("closed");
        sql += &format!("{before}lpad(({number})::text, 32, '0')::uuid");
        rest = after;
    }
    sql += rest;
    run(superuser, &sql, what).await;
}

async fn columns(conn: &mut PgConnection, schema: &str) -> Vec<String> {
    sqlx::query_scalar(COLUMNS)
        .bind(schema)
        .fetch_all(conn)
        .await
        .expect("columns")
}

/// Rows that were there and are not there any more with all that they said.
async fn lost(conn: &mut PgConnection) -> Vec<String> {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'kept' ORDER BY 1",
    )
    .fetch_all(&mut *conn)
    .await
    .expect("tables");
    let mut lost = Vec::new();
    for table in tables {
        let rows: Vec<String> = sqlx::query_scalar(AssertSqlSafe(format!(
            "SELECT '{table} ' || to_jsonb(o)::text FROM kept.{table} o WHERE NOT EXISTS
               (SELECT FROM placement.{table} n WHERE to_jsonb(o) =
                 (SELECT jsonb_object_agg(key, to_jsonb(n) -> key) FROM jsonb_object_keys(to_jsonb(o)) AS key))"
        )))
        .fetch_all(&mut *conn)
        .await
        .expect("rows");
        lost.extend(rows);
    }
    lost
}

/// A database with the baseline and a row in each of its tables.
struct Filled {
    empty: Empty,
    owner: PgConnection,
    superuser: PgConnection,
}

impl Filled {
    async fn new() -> Self {
        let empty = Empty::new().await;
        let mut owner = empty.owner().await;
        let superuser = empty.server.superuser(&empty.name).await;
        let mut superuser = superuser.expect("superuser connects");
        let schema = "CREATE SCHEMA placement; SET search_path = placement";
        run(&mut owner, schema, "schema").await;
        let baseline = scripts("placement").into_iter();
        let baseline = baseline.filter(|(version, _)| *version <= BASELINE);
        for (_, path) in scripts("common").into_iter().chain(baseline) {
            let sql = fs::read_to_string(&path).expect("a script");
            run(&mut owner, &sql, &path.display().to_string()).await;
        }
        fill(&mut superuser, ROWS, "the rows").await;
        Self {
            empty,
            owner,
            superuser,
        }
    }

    /// Applies a script, and returns what it took away: columns, or rows that do not contain any more what they did. Every
    /// table must have rows before it, so that each is really compared.
    async fn apply(&mut self, sql: &str, what: &str) -> Vec<String> {
        run(&mut self.owner, KEEP, "keep").await;
        let unused = empty_tables(&mut self.owner).await;
        assert!(unused.is_empty(), "{what} finds no rows in {unused:?}");
        let before = columns(&mut self.owner, "kept").await;
        run(&mut self.owner, &format!("BEGIN; {sql}; COMMIT"), what).await;
        let after = columns(&mut self.owner, "placement").await;
        let gone: Vec<String> = before
            .into_iter()
            .filter(|was| !after.contains(was))
            .collect();
        if gone.is_empty() {
            return lost(&mut self.owner).await;
        }
        gone
    }

    async fn drop_it(self) {
        self.superuser.close().await.expect("closed");
        drop(self.owner);
        self.empty.drop_it().await;
    }
}

#[tokio::test]
async fn b_34_every_script_adds_and_keeps_what_the_release_before_has_written() {
    let mut ledger = Filled::new().await;
    let scripts = scripts("placement");
    for (of, rows) in &LATER {
        let is_there = scripts.iter().any(|(version, _)| version == of);
        assert!(is_there, "no script {of} for the rows {rows}");
    }
    let later = scripts.into_iter();
    for (version, path) in later.filter(|(version, _)| *version > BASELINE) {
        let name = path.display().to_string();
        let sql = fs::read_to_string(&path).expect("a script");
        let gone = ledger.apply(&sql, &name).await;
        assert!(gone.is_empty(), "{name} takes away {gone:#?}");
        for (_, rows) in LATER.iter().filter(|(of, _)| *of == version) {
            fill(&mut ledger.superuser, rows, &name).await;
        }
    }
    let gone = ledger.apply("SELECT 1", "the next release").await;
    assert!(gone.is_empty(), "{gone:#?}");
    ledger.drop_it().await;
}

/// The test above sees each of these losses.
#[tokio::test]
async fn b_34_a_script_that_takes_something_away_is_found() {
    let destructive = [
        (
            "DROP TABLE capacity_samples",
            "capacity_samples.at timestamptz",
        ),
        (
            "ALTER TABLE nodes DROP COLUMN admin_reason",
            "nodes.admin_reason text",
        ),
        (
            "ALTER TABLE skus RENAME COLUMN profile_name TO profile",
            "skus.profile_name text",
        ),
        (
            "ALTER TABLE fair_share ALTER COLUMN last_served TYPE numeric",
            "fair_share.last_served int8",
        ),
        (
            "DELETE FROM backfill_reservations",
            "backfill_reservations {",
        ),
        (
            "UPDATE project_quotas SET max_allocations = NULL",
            "project_quotas {",
        ),
    ];
    for (sql, found) in destructive {
        let mut ledger = Filled::new().await;
        let gone = ledger.apply(sql, sql).await;
        assert!(
            gone.iter().any(|one| one.starts_with(found)),
            "{sql}: {gone:?}"
        );
        ledger.drop_it().await;
    }
    let added = "CREATE TABLE notes (text text); ALTER TABLE nodes ADD COLUMN rack text NOT NULL DEFAULT ''";
    let mut ledger = Filled::new().await;
    let gone = ledger.apply(added, added).await;
    assert!(gone.is_empty(), "an addition is no loss: {gone:?}");
    ledger.drop_it().await;
}

async fn empty_tables(conn: &mut PgConnection) -> Vec<String> {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'kept' ORDER BY 1",
    )
    .fetch_all(&mut *conn)
    .await
    .expect("tables");
    let mut found = Vec::new();
    for table in tables {
        let any: bool = sqlx::query_scalar(AssertSqlSafe(format!(
            "SELECT EXISTS (SELECT FROM kept.{table})"
        )))
        .fetch_one(&mut *conn)
        .await
        .expect("rows");
        if !any {
            found.push(table);
        }
    }
    found
}

/// A database of the release before has hosts that reported: none of them is silent after the upgrade, and each is judged
/// by its next report in full.
#[tokio::test]
async fn hosts_that_reported_to_the_release_before_are_heard_by_this_one() {
    let empty = Empty::new().await;
    let mut owner = empty.owner().await;
    let schema = "CREATE SCHEMA inventory; SET search_path = inventory";
    run(&mut owner, schema, "schema").await;
    let (before, after): (Vec<_>, Vec<_>) = scripts("inventory")
        .into_iter()
        .partition(|(version, _)| *version < 4);
    for (_, path) in scripts("common").into_iter().chain(before) {
        let sql = fs::read_to_string(&path).expect("a script");
        run(&mut owner, &sql, &path.display().to_string()).await;
    }
    let rows = "
        INSERT INTO regions (code, display_name, enabled, unavailable_reason) VALUES ('r', 'R', true, '');
        INSERT INTO nodes (id, hostname, region_code, mode, max_vms_per_node)
            SELECT gen_random_uuid(), 'h' || n, 'r', 'slice', 0 FROM generate_series(1, 2) AS n;
        INSERT INTO host_instances (id, node_id, boot_id, machine_id, agent_version, agent_address, host_profile, lab,
                hypervisor, certificate_digest, certificate_expire_time, public_key_digest)
            SELECT gen_random_uuid(), id, 'b', 'm', '1', 'h:1', 'lab', true, 'qemu', decode(repeat('00', 32), 'hex'),
                   now(), decode(repeat('00', 32), 'hex') FROM nodes WHERE hostname = 'h1';
        UPDATE nodes n SET state = 'enrolled', current_instance_id = i.id, last_heartbeat_time = '2026-01-01 00:00Z'
          FROM host_instances i WHERE i.node_id = n.id;
        INSERT INTO node_evidence SELECT node_id, id, '2026-01-01 00:00Z', 'x' FROM host_instances";
    run(&mut owner, rows, "rows").await;
    for (_, path) in after {
        let sql = fs::read_to_string(&path).expect("a script");
        run(&mut owner, &sql, &path.display().to_string()).await;
    }
    let heard: Vec<(String, bool, bool)> = sqlx::query_as(
        "SELECT n.hostname, b.beat_time = n.last_heartbeat_time AND b.observed_time = n.last_heartbeat_time
                AND b.instance_id = n.current_instance_id, b.known_digest IS NULL
           FROM nodes n JOIN host_beats b ON b.node_id = n.id",
    )
    .fetch_all(&mut owner)
    .await
    .expect("rows");
    assert_eq!(heard, [("h1".to_owned(), true, true)]);
    drop(owner);
    empty.drop_it().await;
}
