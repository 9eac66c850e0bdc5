//! What is reserved for a project and not in use, for those who may have nothing else.
use std::collections::BTreeSet;

use gpuaas_placement_decision::Rules;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;

/// The slots that live reservations of a SKU have for a project in a region, and that it does not use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unused {
    slots: BTreeSet<Uuid>,
    nodes: BTreeSet<Uuid>,
}

impl Unused {
    /// Those of now, in one region or in all.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn of(
        conn: &mut PgConnection,
        project_id: Uuid,
        region_code: Option<&str>,
        sku: &str,
    ) -> Result<Self> {
        let rows: Vec<(Uuid, Uuid)> = sqlx::query_as(
            "SELECT h.slot_id, h.node_id FROM reserved_slots h JOIN capacity_reservations r ON r.id = h.reservation_id
              WHERE r.project_id = $1 AND ($2::text IS NULL OR r.region_code = $2) AND r.sku = $3 AND h.idle_since IS NOT NULL
                AND r.ends_at > clock_timestamp()",
        )
        .bind(project_id)
        .bind(region_code)
        .bind(sku)
        .fetch_all(conn)
        .await?;
        let (slots, nodes) = rows.into_iter().unzip();
        Ok(Self { slots, nodes })
    }

    /// Their GPUs.
    pub(crate) fn gpus(&self) -> usize {
        self.slots.len()
    }

    /// Allows nothing but them.
    pub(crate) fn limit(mut self, rules: &mut Rules) {
        if let Some(only) = &rules.only {
            self.nodes.retain(|node_id| only.contains(node_id));
        }
        rules.only = Some(self.nodes);
        rules.only_slots = Some(self.slots);
    }
}
