//! What a service may not do to a tenant, statement after statement, as the real roles: end what somebody has, assert that a
//! disk is empty, allocate it again, turn back what only grows.
//!
//! Each chain is tried twice: every statement in a transaction of its own, and all of them in one. Somewhere it must be
//! refused, and at its end the tenant has what it had.
use gpuaas_placement::Error;
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

use crate::world::World;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Tenant {
    Reserved,
    Active,
}
use Tenant::{Active, Reserved};

const CLAIM_ENDS: &str = "UPDATE claims SET state = 'releasing' WHERE id = '{claim}'; \
                          UPDATE claims SET state = 'released', released_at = clock_timestamp() WHERE id = '{claim}'";
const SLOT_LEAVES: &str = "UPDATE slots SET status = 'releasing', revision = revision + 1 WHERE id = '{slot}'; \
                           UPDATE slots SET status = 'cleanup', revision = revision + 1 WHERE id = '{slot}'";
const EVIDENCE: &str = "INSERT INTO clean_evidence (slot_id, generation, kind, method) VALUES ('{slot}', {generation}, 'wiped', 'none')";
const SCHEDULABLE: &str = "UPDATE slots SET clean_generation = generation, status = 'available', revision = revision + 1 WHERE id = '{slot}'";
const REPAIR: &str = "INSERT INTO workflows (id, kind, slot_id, deadline_at) VALUES ('{id}', 'repair', '{slot}', now() + interval '1 hour')";
const ANSWER: &str = "INSERT INTO node_tasks (id, type, workflow_id, slot_id, node_id) \
                      VALUES ('{id}', 'slice.slot_repair', '{id}', '{slot}', '{node}'); \
                      UPDATE node_tasks SET state = 'done', ended_at = now() WHERE id = '{id}'";

/// A host is called to provision, which fails; then claim, slot and allocation go as after a failure that touched nothing.
const PROVISION_FAILS: &str = "INSERT INTO node_tasks (id, type, workflow_id, allocation_id, node_id) \
    SELECT '{id}', 'slice.vm_provision', id, '{allocation}', '{node}' FROM workflows WHERE allocation_id = '{allocation}'; \
    UPDATE node_tasks SET state = 'failed', ended_at = now() WHERE id = '{id}'; \
    UPDATE slots SET status = 'provisioning', revision = revision + 1 WHERE id = '{slot}'; \
    UPDATE slots SET status = 'releasing', revision = revision + 1 WHERE id = '{slot}'; \
    UPDATE slots SET status = 'cleanup', revision = revision + 1 WHERE id = '{slot}'; \
    UPDATE claims SET state = 'provisioning' WHERE id = '{claim}'; \
    UPDATE claims SET state = 'releasing' WHERE id = '{claim}'; \
    UPDATE claims SET state = 'released', released_at = clock_timestamp() WHERE id = '{claim}'; \
    UPDATE allocations SET state = 'provisioning', revision = revision + 1 WHERE id = '{allocation}'; \
    UPDATE allocations SET state = 'failed', failure = '{}', ended_at = clock_timestamp(), revision = revision + 1 \
     WHERE id = '{allocation}'";

/// What the tenant is, the role, the chain.
const CHAINS: &[(&str, Tenant, &str, &[&str])] = &[
    ("the claim of an active allocation ends", Active, "allocation", &[CLAIM_ENDS]),
    ("claim, slot, evidence, schedulable", Active, "allocation", &[CLAIM_ENDS, SLOT_LEAVES, EVIDENCE, SCHEDULABLE]),
    ("slot, evidence, schedulable", Active, "allocation", &[SLOT_LEAVES, EVIDENCE, SCHEDULABLE]),
    ("an active slot is repaired", Active, "allocation", &[
        "UPDATE slots SET status = 'cleanup_blocked', revision = revision + 1 WHERE id = '{slot}'",
        REPAIR,
        "UPDATE slots SET status = 'cleanup', generation = generation + 1, revision = revision + 1 WHERE id = '{slot}'",
        ANSWER,
        "INSERT INTO clean_evidence (slot_id, generation, kind, method) VALUES ('{slot}', {generation} + 1, 'wiped', 'none')",
        SCHEDULABLE,
    ]),
    ("a claim that is blocked ends while its tenant lives", Active, "allocation", &[
        "UPDATE slots SET status = 'cleanup_blocked', revision = revision + 1 WHERE id = '{slot}'",
        "UPDATE claims SET state = 'cleanup_blocked' WHERE id = '{claim}'",
        "UPDATE claims SET state = 'released', released_at = clock_timestamp() WHERE id = '{claim}'",
    ]),
    ("the slot of an active allocation is untouched, it says", Active, "allocation", &[
        SLOT_LEAVES,
        "INSERT INTO clean_evidence (slot_id, generation, kind, method) VALUES ('{slot}', {generation}, 'untouched', 'none')",
        SCHEDULABLE,
    ]),
    ("a host that was called to provision is untouched, it says", Reserved, "allocation", &[
        PROVISION_FAILS,
        "INSERT INTO clean_evidence (slot_id, generation, kind, method) VALUES ('{slot}', {generation}, 'untouched', 'none'); \
         UPDATE slots SET clean_generation = generation, status = 'available', revision = revision + 1 WHERE id = '{slot}'",
    ]),
    ("evidence from before the tenant", Reserved, "allocation", &[
        "INSERT INTO clean_evidence (slot_id, generation, kind, method) VALUES ('{slot}', {generation}, 'untouched', 'none')",
    ]),
    ("evidence and its generation from before the tenant", Reserved, "allocation", &[
        "INSERT INTO clean_evidence (slot_id, generation, kind, method) VALUES ('{slot}', {generation}, 'untouched', 'none'); \
         UPDATE slots SET clean_generation = {generation}, revision = revision + 1 WHERE id = '{slot}'",
    ]),
    ("a reserved slot is given back without its claim", Reserved, "allocation", &[
        "INSERT INTO clean_evidence (slot_id, generation, kind, method) VALUES ('{slot}', {generation}, 'untouched', 'none')",
        SCHEDULABLE,
    ]),
    ("a reserved claim ends without its allocation", Reserved, "allocation", &[
        "UPDATE claims SET state = 'released', released_at = clock_timestamp() WHERE id = '{claim}'",
    ]),
    ("an allocation ends and leaves its claim", Active, "allocation", &[
        "UPDATE allocation_periods SET ended_at = clock_timestamp() WHERE allocation_id = '{allocation}'; \
         UPDATE allocations SET state = 'releasing', power = NULL, releasing_at = clock_timestamp(), revision = revision + 1 \
          WHERE id = '{allocation}'",
        "UPDATE allocations SET state = 'released', ended_at = clock_timestamp(), revision = revision + 1 WHERE id = '{allocation}'",
    ]),
    ("the allocation service allocates", Active, "allocation", &["UPDATE slots SET status = 'reserved', revision = revision + 1 WHERE id = '{other}'"]),
    ("the scheduler ends the claim", Active, "scheduler", &[CLAIM_ENDS]),
    ("the scheduler ends a claim that it blocked", Active, "scheduler", &[
        "UPDATE slots SET status = 'cleanup_blocked', revision = revision + 1 WHERE id = '{slot}'; \
         UPDATE claims SET state = 'cleanup_blocked' WHERE id = '{claim}'",
        "UPDATE claims SET state = 'released', released_at = clock_timestamp() WHERE id = '{claim}'",
    ]),
    ("the scheduler moves the slot", Active, "scheduler", &[SLOT_LEAVES]),
    ("the scheduler has a tenant's disk wiped", Active, "scheduler", &[
        "UPDATE slots SET status = 'cleanup_blocked', revision = revision + 1 WHERE id = '{slot}'",
        REPAIR,
        "UPDATE slots SET status = 'cleanup', generation = generation + 1, revision = revision + 1 WHERE id = '{slot}'",
    ]),
    ("the scheduler asserts evidence", Active, "scheduler", &[EVIDENCE]),
    ("the scheduler says which generation is clean", Active, "scheduler", &["UPDATE slots SET clean_generation = generation"]),
    ("a workflow that is born done", Active, "scheduler", &[
        "INSERT INTO workflows (id, kind, slot_id, deadline_at, state, ended_at) VALUES ('{id}', 'repair', '{slot}', now(), 'done', now())",
    ]),
    // P3
    ("a period ends while its allocation is active", Active, "allocation", &[
        "UPDATE allocation_periods SET ended_at = started_at WHERE allocation_id = '{allocation}'",
    ]),
    ("a period of time that is billed already", Active, "allocation", &[
        "INSERT INTO allocation_periods (id, allocation_id, project_id, sku, gpu_count, started_at)
         SELECT '{id}', id, project_id, sku, gpu_count, active_at - interval '1 day' FROM allocations WHERE id = '{allocation}'",
    ]),
    ("a period of a tenant that never was active", Reserved, "allocation", &[
        "INSERT INTO allocation_periods (id, allocation_id, project_id, sku, gpu_count, started_at)
         SELECT '{id}', id, project_id, sku, gpu_count, created_at FROM allocations WHERE id = '{allocation}'",
    ]),
    // P6
    ("a lease epoch goes back", Reserved, "allocation", &["UPDATE workflows SET lease_epoch = lease_epoch - 1 WHERE state = 'running'"]),
    ("a workflow that ended runs again", Active, "allocation", &["UPDATE workflows SET state = 'running', ended_at = NULL WHERE state = 'done'"]),
    ("an answer of a host is rewritten", Active, "allocation", &["UPDATE node_tasks SET output = '{\"succeeded\": true}'"]),
    ("the log's head goes back", Active, "allocation", &["UPDATE outbox_head SET position = position - 1"]),
    // P10
    ("an audit row of another time", Active, "scheduler", &[
        "INSERT INTO audit (id, at, principal, action, resource, resource_id, request_id) VALUES ('{id}', '2000-01-01', 'a', 'b', 'c', 'd', 'e')",
    ]),
    ("an audit row of another service", Active, "allocation", &[
        "INSERT INTO audit (id, service, principal, action, resource, resource_id, request_id) VALUES ('{id}', 'edge', 'a', 'b', 'c', 'd', 'e')",
    ]),
];

/// SQLSTATE of the first statement that is refused, each in a transaction of its own.
async fn one_by_one(pool: &PgPool, chain: &[String]) -> Option<String> {
    for sql in chain {
        for statement in sql.split(';').filter(|one| !one.trim().is_empty()) {
            let done = sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
                .execute(pool)
                .await;
            if let Err(error) = done {
                return Some(code(&error, statement));
            }
        }
    }
    None
}

/// The same of all in one transaction.
async fn at_once(pool: &PgPool, chain: &[String]) -> Option<String> {
    let mut tx = pool.begin().await.expect("begin");
    for sql in chain {
        if let Err(error) = sqlx::raw_sql(AssertSqlSafe(sql.clone()))
            .execute(&mut *tx)
            .await
        {
            return Some(code(&error, sql));
        }
    }
    tx.commit().await.err().map(|error| code(&error, "commit"))
}

fn code(error: &sqlx::Error, statement: &str) -> String {
    let database = error.as_database_error();
    let code = database
        .unwrap_or_else(|| panic!("{statement}: {error}"))
        .code();
    code.unwrap_or_default().into_owned()
}

#[tokio::test]
async fn p1_p2_a_service_that_is_wrong_takes_nothing_from_a_tenant() {
    let mut wrong = Vec::new();
    for tenant in [Reserved, Active] {
        let (world, node) = World::with_lab_slots(2).await;
        let allocation = match tenant {
            Active => world.active(1).await,
            Reserved => {
                let id = world.reserved(1).await;
                world.take(id).await;
                id
            }
        };
        gpuaas_placement::sequencer::run_once(&world.allocation)
            .await
            .expect("sequenced");
        let slots = world.slots(node).await;
        let held = slots
            .iter()
            .find(|slot| slot.allocation_id == Some(allocation))
            .expect("held");
        let other = slots
            .iter()
            .find(|slot| slot.id != held.id)
            .expect("another");
        let claim: Uuid =
            sqlx::query_scalar("SELECT id FROM claims WHERE slot_id = $1 AND state <> 'released'")
                .bind(held.id)
                .fetch_one(&world.owner)
                .await
                .expect("a claim");
        // every chain begins with the same ledger
        let state = Saved::take(&world).await;
        for (name, _, role, chain) in CHAINS.iter().filter(|(_, of, ..)| *of == tenant) {
            let pool = if *role == "scheduler" {
                &*world.scheduler
            } else {
                &world.allocation
            };
            for together in [false, true] {
                let chain: Vec<String> = chain
                    .iter()
                    .map(|sql| {
                        sql.replace("{claim}", &claim.to_string())
                            .replace("{slot}", &held.id.to_string())
                            .replace("{other}", &other.id.to_string())
                            .replace("{node}", &node.to_string())
                            .replace("{allocation}", &allocation.to_string())
                            .replace("{generation}", &held.generation.to_string())
                            .replace("{id}", &Uuid::now_v7().to_string())
                    })
                    .collect();
                let refused = if together {
                    at_once(pool, &chain).await
                } else {
                    one_by_one(pool, &chain).await
                };
                let code = refused.as_deref();
                if !matches!(code, Some("23514" | "23503" | "23505" | "42501")) {
                    wrong.push(format!(
                        "{name}, {role}, in one transaction: {together}: {code:?}"
                    ));
                }
                let now = world.slots(node).await;
                let now = now
                    .iter()
                    .find(|slot| slot.id == held.id)
                    .expect("the slot");
                if now.allocation_id != Some(allocation) {
                    wrong.push(format!("{name}, {role}: the tenant has lost {now:?}"));
                }
                state.put_back(&world).await;
            }
        }
        // the other slot is the only one to allocate
        world.reserved(1).await;
        let full = world.reserve(&world.request(1)).await;
        assert!(matches!(full, Err(Error::Refused { .. })), "{full:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The rows that a chain may change.
struct Saved;

const TABLES: [&str; 5] = [
    "slots",
    "claims",
    "allocations",
    "allocation_periods",
    "workflows",
];

impl Saved {
    async fn take(world: &World) -> Self {
        for table in TABLES {
            world
                .run_past_guards(&format!(
                    "CREATE TABLE kept_{table} AS SELECT * FROM {table}"
                ))
                .await;
        }
        Self
    }

    async fn put_back(&self, world: &World) {
        let mut sql = String::new();
        for table in TABLES {
            let columns = "SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns
                            WHERE table_schema = 'placement' AND table_name = $1 AND is_generated = 'NEVER'";
            let columns: String = sqlx::query_scalar(columns)
                .bind(table)
                .fetch_one(&world.owner)
                .await
                .expect("columns");
            sql += &format!(
                "DELETE FROM {table}; INSERT INTO {table} ({columns}) SELECT {columns} FROM kept_{table};"
            );
        }
        world.run_past_guards(sql.trim_end_matches(';')).await;
    }
}

/// P10: which service wrote a row is not for the service to say.
#[tokio::test]
async fn p10_an_audit_row_names_the_service_that_wrote_it() {
    let world = World::new().await;
    for (pool, service) in [
        (&*world.scheduler, "scheduler"),
        (&world.allocation, "allocation"),
    ] {
        let insert = "INSERT INTO audit (id, principal, action, resource, resource_id, request_id) \
                      VALUES (gen_random_uuid(), 'user:a', $1, 'slot', 's', 'r')";
        sqlx::query(insert)
            .bind(service)
            .execute(pool)
            .await
            .expect("recorded");
        let wrote: String = sqlx::query_scalar("SELECT service FROM audit WHERE action = $1")
            .bind(service)
            .fetch_one(&world.owner)
            .await
            .expect("a row");
        assert_eq!(wrote, service);
    }
}
