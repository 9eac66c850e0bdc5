//! Wipes that were proven, with what the hosts signed of them: read from the evidence, which never changes.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

/// A wipe of a slot's disk.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Wipe {
    pub slot_id: Uuid,
    /// Of the slot, while the wipe was its proof.
    pub generation: i64,
    /// Wipe policy of the slot.
    pub policy: String,
    /// How it was wiped; empty when the host did not tell.
    pub erase_method: String,
    /// What the host signed; empty when it signed none.
    pub certificate: String,
    /// When the proof was accepted.
    pub at: Timestamp,
}

/// What the wipes of an allocation can be selected by.
pub static OF_ALLOCATION: Catalog = Catalog {
    fields: &[
        Field::new("slot_id", Kind::Id, "listed.slot_id"),
        GENERATION,
        POLICY,
        ERASE_METHOD,
        ACCEPT_TIME,
    ],
    // an allocation is on one node, where it tells its slots apart
    key: Field::new("slot_index", Kind::Number, "listed.slot_index::bigint"),
    order: "",
};

const GENERATION: Field = Field::sortable("slot_generation", Kind::Number, "listed.generation");
const POLICY: Field = Field::new("policy", Kind::Text, "listed.policy");
const ERASE_METHOD: Field = Field::new("erase_method", Kind::Text, "listed.erase_method");
const ACCEPT_TIME: Field = Field::sortable("accept_time", Kind::Time, "listed.at");

/// The wipes that ended an allocation and are selected, in order of the slots' index unless it says otherwise, and the token of
/// the next page. A wipe that was proven by a repair afterwards is the allocation's as well: nobody had the slot meanwhile.
///
/// # Errors
/// A page token of another list; those of the database.
pub async fn of_allocation(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<Wipe>, String)> {
    let statement = Statement::new(&[
        "SELECT e.slot_id, e.generation, coalesce(e.detail ->> 'policy', e.detail ->> 'method', e.method) AS policy,
                coalesce(e.detail ->> 'erase_method', '') AS erase_method,
                coalesce(e.detail ->> 'certificate', '') AS certificate, e.at, s.slot_index
           FROM claims c JOIN slots s ON s.id = c.slot_id
                CROSS JOIN LATERAL (SELECT * FROM clean_evidence
                                     WHERE slot_id = c.slot_id AND generation >= c.slot_generation
                                     ORDER BY generation LIMIT 1) e
          WHERE c.allocation_id = $1 AND e.kind = 'wiped'",
    ])
    .bind(allocation_id);
    selection.page(conn, statement, wanted).await
}

/// What the wipes of a slot can be selected by.
pub static CATALOG: Catalog = Catalog {
    fields: &[GENERATION, POLICY, ERASE_METHOD, ACCEPT_TIME],
    key: Field::new("slot_generation", Kind::Number, "listed.generation"),
    order: "slot_generation desc",
};

/// The wipes of a slot's disk that are selected, newest first unless it says otherwise, and the token of the next page.
///
/// # Errors
/// A page token of another list; those of the database.
pub async fn of_slot(
    conn: &mut PgConnection,
    slot_id: Uuid,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<Wipe>, String)> {
    let statement = Statement::new(&[
        "SELECT slot_id, generation, coalesce(detail ->> 'policy', detail ->> 'method', method) AS policy,
                coalesce(detail ->> 'erase_method', '') AS erase_method,
                coalesce(detail ->> 'certificate', '') AS certificate, at
           FROM clean_evidence WHERE slot_id = $1 AND kind = 'wiped'",
    ])
    .bind(slot_id);
    selection.page(conn, statement, wanted).await
}
