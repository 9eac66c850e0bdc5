//! Ingress mappings in the journal: what leads to the VM of an allocation that has its slots here.
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use prost::Message as _;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::lease_rows::token;
use super::{Journal, corrupt};
use crate::error::{HostError, HostResult};
use crate::ids::{AllocationId, SlotId, Token};
use crate::ingress::Ingress;

impl Journal {
    /// Everything that was set, as it was set.
    pub fn ingress(&self) -> HostResult<Vec<pb::AllocationIngress>> {
        self.with(|connection| all(connection))
    }

    /// Replaces what leads to the VM of an allocation.
    ///
    /// # Errors
    /// `LEASE_REQUIRED` when the allocation has no slots here, or a slot of it has no token; `FENCED` when a token is behind its
    /// slot's, or when a later version was set; `OPERATION_CONFLICT` when another allocation has an external port.
    pub fn set_ingress(
        &self,
        wanted: &pb::AllocationIngress,
        tokens: &[(SlotId, Token)],
    ) -> HostResult<()> {
        let parsed = Ingress::parse(wanted)?;
        self.with(|connection| {
            let transaction = connection.transaction()?;
            check_holds(&transaction, parsed.allocation, tokens)?;
            for other in all(&transaction)? {
                check_beside(&parsed, &other)?;
            }
            let wire = wanted.encode_to_vec();
            transaction.execute(
                "INSERT OR REPLACE INTO ingress (allocation_id, wanted) VALUES (?1, ?2)",
                params![parsed.allocation.to_string(), wire],
            )?;
            transaction.commit()?;
            Ok(())
        })
    }

    /// Forgets what leads to the VM of an allocation; nothing is fine.
    pub fn drop_ingress(&self, allocation: AllocationId) -> HostResult<()> {
        self.with(|connection| {
            let sql = "DELETE FROM ingress WHERE allocation_id = ?1";
            connection.execute(sql, params![allocation.to_string()])?;
            Ok(())
        })
    }

    /// Forgets what leads to VMs whose slots are not held any more: nobody owns it. Returns of how many allocations.
    pub fn drop_ingress_of_nobody(&self) -> HostResult<usize> {
        self.with(|connection| {
            let sql =
                "DELETE FROM ingress WHERE allocation_id NOT IN (SELECT allocation_id FROM holds)";
            Ok(connection.execute(sql, [])?)
        })
    }
}

fn all(connection: &Connection) -> HostResult<Vec<pb::AllocationIngress>> {
    let mut statement = connection.prepare("SELECT wanted FROM ingress ORDER BY allocation_id")?;
    let rows = statement.query_map([], |row| row.get::<_, Vec<u8>>(0))?;
    let mut found = Vec::new();
    for row in rows {
        let set = pb::AllocationIngress::decode(row?.as_slice());
        found.push(set.map_err(|_| corrupt("ingress mapping"))?);
    }
    Ok(found)
}

/// Refuses what another set stands against.
fn check_beside(wanted: &Ingress, other: &pb::AllocationIngress) -> HostResult<()> {
    let other = Ingress::parse(other)?;
    if other.allocation == wanted.allocation {
        if other.version > wanted.version {
            let why = format!(
                "version {} of the ingress mappings was set, after {}",
                other.version, wanted.version
            );
            return Err(HostError::host(ErrorReason::Fenced, why));
        }
        return Ok(());
    }
    let taken =
        |rule: &&crate::ingress::Rule| other.rules.iter().any(|one| one.is_at_port_of(rule));
    match wanted.rules.iter().find(taken) {
        Some(rule) => {
            let (port, protocol) = (rule.external_port, rule.protocol.as_str());
            let why = format!("external port {port}/{protocol} leads to another VM of this host");
            Err(HostError::host(ErrorReason::OperationConflict, why))
        }
        None => Ok(()),
    }
}

/// Refuses whoever does not show a token for each slot that is held for the allocation, none of them behind its slot's (P6).
fn check_holds(
    connection: &Connection,
    allocation: AllocationId,
    tokens: &[(SlotId, Token)],
) -> HostResult<()> {
    let mut statement = connection.prepare("SELECT slot_id FROM holds WHERE allocation_id = ?1")?;
    let held: Vec<String> = statement
        .query_map(params![allocation.to_string()], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let shown = |slot: &String| tokens.iter().any(|(of, _)| of.to_string() == *slot);
    if held.is_empty() || held.len() != tokens.len() || !held.iter().all(shown) {
        let why =
            format!("the slots that are shown are not those that allocation {allocation} has here");
        return Err(HostError::host(ErrorReason::LeaseRequired, why));
    }
    for (slot, shown) in tokens {
        let sql =
            "SELECT cell_epoch, slot_generation, workflow_epoch FROM fences WHERE slot_id = ?1";
        let fence = connection
            .query_row(sql, params![slot.to_string()], |row| token(row, 0))
            .optional()?;
        if fence.is_some_and(|fence| *shown < fence) {
            let why = format!("the token for slot {slot} is behind the one that this host saw");
            return Err(HostError::host(ErrorReason::Fenced, why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::common::v1::IngressProtocol;
    use uuid::Uuid;

    use super::*;

    fn hold(journal: &Journal, slot: SlotId, allocation: AllocationId, token: Token) {
        journal.restore_fence(slot, token).unwrap();
        let sql = "INSERT OR REPLACE INTO holds (slot_id, allocation_id) VALUES (?1, ?2)";
        let values = [slot.to_string(), allocation.to_string()];
        let held = journal.with(|connection| Ok(connection.execute(sql, values)?));
        assert_eq!(held.unwrap(), 1);
    }

    fn set(allocation: AllocationId, version: u64, ports: &[u32]) -> pb::AllocationIngress {
        let rule = |port: &u32| pb::IngressRule {
            protocol: IngressProtocol::Tcp.into(),
            vm_port: 22,
            external_address: "203.0.113.7".into(),
            external_port: *port,
            source_cidrs: Vec::new(),
            expire_time: None,
        };
        pb::AllocationIngress {
            allocation_id: allocation.to_string(),
            version,
            rules: ports.iter().map(rule).collect(),
        }
    }

    fn token_of(generation: u64, workflow: u64) -> Token {
        Token {
            cell_epoch: 1,
            slot_generation: generation,
            workflow_epoch: workflow,
        }
    }

    /// D-82
    #[test]
    fn p6_ingress_is_set_by_who_shows_the_tokens_of_the_slots_and_by_the_latest_version() {
        let journal = Journal::in_memory().unwrap();
        let [one, two] = [1, 2].map(|id| AllocationId(Uuid::from_u128(id)));
        let [first, second] = [11, 12].map(|id| SlotId(Uuid::from_u128(id)));
        hold(&journal, first, one, token_of(1, 5));
        hold(&journal, second, two, token_of(1, 6));
        let refused = |wanted: &pb::AllocationIngress, tokens: &[(SlotId, Token)]| {
            journal.set_ingress(wanted, tokens).unwrap_err().reason
        };
        let good = [(first, token_of(1, 9))];
        journal
            .set_ingress(&set(one, 3, &[30_000, 30_001]), &good)
            .unwrap();
        // said again, and with nothing of another in the way
        journal
            .set_ingress(&set(one, 3, &[30_000, 30_001]), &good)
            .unwrap();
        for tokens in [
            &[][..],
            &[(second, token_of(1, 9))],
            &[(first, token_of(1, 9)), (second, token_of(1, 9))],
        ] {
            assert_eq!(
                refused(&set(one, 4, &[]), tokens),
                ErrorReason::LeaseRequired
            );
        }
        let late = [(first, token_of(1, 4))];
        assert_eq!(refused(&set(one, 4, &[]), &late), ErrorReason::Fenced);
        assert_eq!(refused(&set(one, 2, &[]), &good), ErrorReason::Fenced);
        let others = [(second, token_of(1, 9))];
        let taken = set(two, 1, &[30_001]);
        assert_eq!(refused(&taken, &others), ErrorReason::OperationConflict);
        assert_eq!(journal.ingress().unwrap(), [set(one, 3, &[30_000, 30_001])]);
        journal.set_ingress(&set(one, 4, &[30_000]), &good).unwrap();
        journal.set_ingress(&taken, &others).unwrap();
        // the next tenant of the slot: nothing of the former one is left, and it comes back by nobody
        journal.drop_ingress(two).unwrap();
        hold(&journal, first, two, token_of(2, 20));
        assert_eq!(journal.drop_ingress_of_nobody().unwrap(), 1);
        assert_eq!(
            refused(&set(one, 5, &[30_000]), &good),
            ErrorReason::LeaseRequired
        );
        assert!(journal.ingress().unwrap().is_empty());
    }
}
