//! The ledger's allocations of a node, for the comparison with its host.

use sqlx::PgPool;
use uuid::Uuid;

/// One allocation of a node.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Row {
    /// Allocation.
    pub id: Uuid,
    pub state: String,
    /// A claim of it is not released.
    pub holds: bool,
    /// A workflow runs for it.
    pub worked_on: bool,
    /// Its power, when it is active.
    pub power: Option<String>,
    /// The guest's boot that was last proven.
    pub boot_id: Option<Uuid>,
}

/// Nodes whose hosts run slices.
///
/// # Errors
/// Those of the database.
pub async fn slice_nodes(pool: &PgPool) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar("SELECT id FROM nodes WHERE mode = 'slice' ORDER BY id")
        .fetch_all(pool)
        .await
}

/// The allocations of a node that hold something, or ended within a week: residue of older ones has
/// no owner. Three searches by an index: a node has had hundreds of thousands that are of no interest.
///
/// # Errors
/// Those of the database.
pub async fn allocations_of(pool: &PgPool, node_id: Uuid) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as(
        "SELECT a.id, a.state, a.power, a.boot_id,
                EXISTS (SELECT FROM claims c WHERE c.allocation_id = a.id AND c.state <> 'released') AS holds,
                EXISTS (SELECT FROM workflows w WHERE w.allocation_id = a.id AND w.state = 'running') AS worked_on
           FROM (SELECT id FROM allocations WHERE node_id = $1 AND ended_at IS NULL
                 UNION SELECT id FROM allocations WHERE node_id = $1 AND ended_at > now() - interval '7 days'
                 UNION SELECT allocation_id FROM claims WHERE node_id = $1 AND state <> 'released') kept
           JOIN allocations a USING (id)",
    )
    .bind(node_id)
    .fetch_all(pool)
    .await
}
