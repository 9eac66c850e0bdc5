//! Applying a release's migrations to the data of the release before keeps all of it (B-34).
use std::fs;
use std::path::{Path, PathBuf};

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use crate::empty::Empty;

/// A region that sells a slice on one slot, and somebody who has it, with all that is written on the way.
const FIRST: &str = "
INSERT INTO regions VALUES ('r-1', true);
INSERT INTO skus (code, display_name, capacity_shape, slot_class, allowed_gpu_counts, profile_name, vcpus_per_gpu,
                  memory_mib_per_gpu, hugepages, price_version_id, price_currency, price_nanos, price_effective_at)
VALUES ('h200-sxm-slice', 'Slice', 'gpu_slice', 'h200_sxm', '{1,2}', 'h200_1g_24c_64g', 24, 65536, true, ID(9), 'USD', 1, now());
INSERT INTO quotas VALUES (ID(1), 'h200-sxm-slice', 8);
INSERT INTO nodes (id, hostname, region_code, mode, agent_address, instance_id, schedulable, hugepages_1g_free, max_vms,
                   legal_groups, lab, host_health)
VALUES (ID(2), 'n-1', 'r-1', 'slice', '10.0.0.1:7110', ID(3), true, 900, 4, '[[1,2]]', false, 'healthy');
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
";

/// What the scripts after this one find besides, by version.
const LATER: [(u32, &str); 6] = [
    (2, "
INSERT INTO workflows (id, kind, allocation_id, state, deadline_at, ended_at)
VALUES (ID(60), 'provision', ID(20), 'done', now(), now()), (ID(61), 'release', ID(21), 'done', now(), now());
INSERT INTO workflow_steps (workflow_id, step, state, lease_epoch, ended_at) VALUES (ID(60), 'activate', 'done', 1, now());
INSERT INTO node_tasks (id, type, workflow_id, allocation_id, node_id, state, ended_at)
VALUES (ID(62), 'slice.vm_provision', ID(60), ID(20), ID(2), 'done', now());
INSERT INTO timeline_heads VALUES (ID(20), 1);
INSERT INTO timeline (allocation_id, sequence, step, state, ended_at) VALUES (ID(20), 1, 'reserve', 'done', now());
"),
    (6, "UPDATE nodes SET admin_reason = 'fan', admin_at = now(), intended_mode = 'slice';"),
    (9, "
INSERT INTO project_priorities VALUES (ID(1), 'high');
INSERT INTO allocations (id, project_id, name, region_code, sku, gpu_count, capacity_shape, state, image, ssh_public_keys,
                         guest_user, lab, principal, request_id, traceparent, deadline_at)
VALUES (ID(22), ID(1), 'a-2', 'r-1', 'h200-sxm-slice', 2, 'gpu_slice', 'requested', '{}', '{ssh-ed25519 A}',
        'u_0123456789abcdef', false, 'user:a', 'req', 'tp', now() + interval '1 hour');
INSERT INTO queued_allocations VALUES (ID(22), ID(23), 'h200_sxm', '{\"require_prewarmed\": true}', 'SLOTS_IN_USE');
INSERT INTO fair_share VALUES ('r-1', 'h200_sxm', ID(1), 7);
INSERT INTO backfill_reservations VALUES ('r-1', 'h200_sxm', ID(2), ID(23));
"),
    (13, "INSERT INTO capacity_samples VALUES ('2026-01-01 00:00Z', 'r-1', 'h200-sxm-slice', 1, 2, 1, 1);"),
    (14, "
INSERT INTO reservation_limits VALUES (ID(1), 4);
INSERT INTO capacity_reservations (id, project_id, name, region_code, sku, gpu_count, starts_at, ends_at, state,
                                   made_by_project, principal)
VALUES (ID(70), ID(1), 'c', 'r-1', 'h200-sxm-slice', 1, now(), now() + interval '1 hour', 'active', true, 'user:a');
INSERT INTO reserved_slots VALUES (ID(11), ID(2), ID(70), ID(1), 64);
"),
    (18, "UPDATE project_quotas SET max_allocations = 5;"),
];

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
fn scripts(folder: &str) -> Vec<(u32, PathBuf)> {
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

async fn run(conn: &mut PgConnection, sql: &str, what: &str) {
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

#[tokio::test]
async fn b_34_every_script_adds_and_keeps_what_the_release_before_has_written() {
    let empty = Empty::new().await;
    let mut owner = empty.owner().await;
    let superuser = empty.server.superuser(&empty.name).await;
    let mut superuser = superuser.expect("superuser connects");
    run(
        &mut owner,
        "CREATE SCHEMA placement; SET search_path = placement",
        "schema",
    )
    .await;
    for (_, path) in scripts("common") {
        let sql = fs::read_to_string(&path).expect("a script");
        run(&mut owner, &sql, "common").await;
    }
    for (version, path) in scripts("placement") {
        let name = path.display().to_string();
        run(&mut owner, KEEP, "keep").await;
        let before = columns(&mut owner, "kept").await;
        let sql = fs::read_to_string(&path).expect("a script");
        run(&mut owner, &format!("BEGIN; {sql}; COMMIT"), &name).await;

        let after = columns(&mut owner, "placement").await;
        let gone: Vec<&String> = before.iter().filter(|was| !after.contains(was)).collect();
        assert!(gone.is_empty(), "{name} takes away {gone:?}");
        let lost = lost(&mut owner).await;
        assert!(lost.is_empty(), "{name} changes {lost:#?}");

        if version == 1 {
            fill(&mut superuser, FIRST, "the first rows").await;
        }
        for (_, rows) in LATER.iter().filter(|(of, _)| *of == version) {
            fill(&mut superuser, rows, &name).await;
        }
    }
    // every table had rows when the newest script came, so that each was really looked at
    run(&mut owner, KEEP, "keep").await;
    let unused: Vec<String> = empty_tables(&mut owner).await;
    assert!(unused.is_empty(), "nothing was kept in {unused:?}");
    // of whom it is known where they asked to be placed, it is with them
    let asked: Vec<(String, String)> = sqlx::query_as(
        "SELECT name, constraints::text FROM placement.allocations WHERE constraints IS NOT NULL",
    )
    .fetch_all(&mut owner)
    .await
    .expect("constraints");
    let prewarmed = r#"{"require_prewarmed": true}"#;
    assert_eq!(asked, [("a-2".to_owned(), prewarmed.to_owned())]);
    superuser.close().await.expect("closed");
    drop(owner);
    empty.drop_it().await;
}

/// The default limit came when projects held more already (0018): none of them is shut out by it.
#[tokio::test]
async fn b_34_a_project_that_holds_more_than_the_default_keeps_what_it_holds() {
    let empty = Empty::new().await;
    let mut owner = empty.owner().await;
    let superuser = empty.server.superuser(&empty.name).await;
    let mut superuser = superuser.expect("superuser connects");
    let schema = "CREATE SCHEMA placement; SET search_path = placement";
    run(&mut owner, schema, "schema").await;
    let (before, this): (Vec<_>, Vec<_>) = scripts("placement")
        .into_iter()
        .filter(|(version, _)| *version <= 22)
        .partition(|(version, _)| *version < 22);
    for (_, path) in scripts("common").iter().chain(&before) {
        let sql = fs::read_to_string(path).expect("a script");
        run(&mut owner, &sql, &path.display().to_string()).await;
    }
    // some end and some wait: neither counts; the last has a limit that an operator set
    let holds = |project: u32, held: u32, state: &str| {
        format!(
            "INSERT INTO allocations (id, project_id, name, region_code, sku, gpu_count, capacity_shape, node_id, state, power,
                                      image, ssh_public_keys, guest_user, lab, principal, request_id, traceparent,
                                      active_at, ended_at, deadline_at)
             SELECT gen_random_uuid(), ID({project}), 'a-' || gen_random_uuid(), 'r-1', 's', 1, 'gpu_slice',
                    CASE WHEN '{state}' <> 'requested' THEN ID(2) END, '{state}',
                    CASE WHEN '{state}' = 'active' THEN 'running' END, '{{}}', '{{ssh-ed25519 A}}', 'u_0123456789abcdef',
                    false, 'user:a', 'req', 'tp', now(), CASE WHEN '{state}' = 'released' THEN now() END, now()
               FROM generate_series(1, {held});"
        )
    };
    let rows = [
        holds(91, 257, "active"),
        holds(92, 256, "active") + &holds(92, 9, "released") + &holds(92, 9, "requested"),
        holds(93, 300, "active") + "INSERT INTO project_quotas (project_id) VALUES (ID(93));",
        holds(94, 300, "active") + "INSERT INTO project_quotas VALUES (ID(94), 5);",
    ];
    fill(&mut superuser, &rows.concat(), "the projects").await;
    let sql = fs::read_to_string(&this[0].1).expect("the script");
    run(&mut owner, &sql, "0022").await;
    let limits: Vec<(String, Option<i32>)> = sqlx::query_as(
        "SELECT right(project_id::text, 2), max_allocations::integer FROM placement.project_quotas ORDER BY 1",
    )
    .fetch_all(&mut owner)
    .await
    .expect("limits");
    let limits: Vec<(&str, Option<i32>)> = limits
        .iter()
        .map(|(project, limit)| (project.as_str(), *limit))
        .collect();
    assert_eq!(
        limits,
        [("91", Some(257)), ("93", Some(300)), ("94", Some(5))]
    );
    superuser.close().await.expect("closed");
    drop(owner);
    empty.drop_it().await;
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
