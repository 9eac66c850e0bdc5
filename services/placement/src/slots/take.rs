//! Taking free slots of a locked node, all of them or none.
use sqlx::PgConnection;
use uuid::Uuid;

use crate::candidates::version;
use crate::error::{Error, Result};
use crate::model::{Bindings, SlotClass};

/// A slot that was just reserved.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct Reserved {
    pub id: Uuid,
    pub slot_index: i32,
    #[sqlx(try_from = "String")]
    pub class: SlotClass,
    pub generation: i64,
    #[sqlx(flatten)]
    pub bindings: Bindings,
}

macro_rules! reserve {
    ($lock:literal, $more:expr) => {
        concat!(
            "WITH mine AS (SELECT id FROM slots WHERE id = ANY ($1) AND status = 'available' ORDER BY id
                              FOR NO KEY UPDATE ",
            $lock,
            ")
             UPDATE slots s SET status = 'reserved', generation = generation + 1, revision = revision + 1,
                    updated_at = greatest(clock_timestamp(), updated_at)
               FROM mine WHERE s.id = mine.id AND (SELECT count(*) FROM mine) = cardinality($1)",
            $more,
            " RETURNING s.id, s.slot_index, s.class, s.generation, s.gpu_pci_address, s.gpu_module_id, s.numa_node,
                       s.nvme_device, s.storage_identity_kind, s.nvme_bytes, s.management_mac, s.private_ip,
                       s.fabric_device, s.fabric_vf_pci_address, s.fabric_claim_mode, s.destructive_wipe_policy"
        )
    };
}

/// Reserves exactly these slots of a locked node, generation raised (B-22, B-39, B-40), and returns them by index; none
/// when one of them is not available or others have it locked, which with `wait` is waited for: then none is reserved.
pub(crate) async fn reserve(
    conn: &mut PgConnection,
    ids: &[Uuid],
    wait: bool,
) -> Result<Option<Vec<Reserved>>> {
    let statement = if wait {
        reserve!("", "")
    } else {
        reserve!("SKIP LOCKED", "")
    };
    exactly(
        ids,
        sqlx::query_as(statement).bind(ids).fetch_all(conn).await,
    )
}

/// The same, without waiting, if the locked node still is as it was in this version of it.
pub(crate) async fn reserve_unchanged(
    conn: &mut PgConnection,
    ids: &[Uuid],
    (node_id, version): (Uuid, &str),
) -> Result<Option<Vec<Reserved>>> {
    let statement = reserve!(
        "SKIP LOCKED",
        concat!(
            " AND (SELECT ",
            version!(),
            " FROM nodes n WHERE n.id = $2) = $3"
        )
    );
    // an error ends the transaction: its caller has more to do, and may have no savepoint
    let reserved = sqlx::query_as(statement)
        .bind(ids)
        .bind(node_id)
        .bind(version)
        .fetch_all(conn)
        .await?;
    exactly(ids, Ok(reserved))
}

/// Locks exactly these slots of a locked node, which are free; none as of [`reserve`].
pub(crate) async fn lock_free(
    conn: &mut PgConnection,
    ids: &[Uuid],
    wait: bool,
) -> Result<Option<Vec<Reserved>>> {
    macro_rules! free {
        ($lock:literal) => {
            concat!(
                "SELECT id, slot_index, class, generation, gpu_pci_address, gpu_module_id, numa_node, nvme_device,
                        storage_identity_kind, nvme_bytes, management_mac, private_ip, fabric_device,
                        fabric_vf_pci_address, fabric_claim_mode, destructive_wipe_policy
                   FROM slots WHERE id = ANY ($1) AND status = 'available' ORDER BY id FOR NO KEY UPDATE ",
                $lock
            )
        };
    }
    let statement = if wait {
        free!("")
    } else {
        free!("SKIP LOCKED")
    };
    exactly(
        ids,
        sqlx::query_as(statement).bind(ids).fetch_all(conn).await,
    )
}

/// The rows of a statement about slots, when it found all of them.
fn exactly(ids: &[Uuid], found: sqlx::Result<Vec<Reserved>>) -> Result<Option<Vec<Reserved>>> {
    match found.map_err(Error::from) {
        Ok(mut slots) if slots.len() == ids.len() => {
            slots.sort_by_key(|slot| slot.slot_index);
            Ok(Some(slots))
        }
        Ok(_) => Ok(None),
        Err(error) if error.sqlstate().as_deref() == Some("55P03") => Ok(None),
        Err(error) => Err(error),
    }
}
