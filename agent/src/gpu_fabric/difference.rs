//! Partitions that are not as the journal has them, for the comparison with the ledger.
use super::table::{PartitionId, Table};
use crate::ids::AllocationId;
use crate::journal::PartitionRow;
use crate::wall_clock::now_ms;

/// How a partition differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is not what its VM needs, and the agent could not make it so.
    Unmatched,
    /// Fabric Manager does not report its partitions.
    Unknown,
    /// It is active, and of no VM of this host.
    Unowned,
}

impl Kind {
    /// Name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unmatched => "partition_unmatched",
            Self::Unknown => "partition_unknown",
            Self::Unowned => "partition_unowned",
        }
    }
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub kind: Kind,
    pub id: PartitionId,
    /// Whose it is by the journal.
    pub allocation: Option<AllocationId>,
    pub message: String,
    /// Since when it is found so, in milliseconds since 1970.
    pub since_ms: i64,
}

impl Difference {
    /// One that was found now.
    pub fn new(
        kind: Kind,
        id: PartitionId,
        allocation: Option<AllocationId>,
        message: String,
    ) -> Self {
        Self {
            kind,
            id,
            allocation,
            message,
            since_ms: now_ms(),
        }
    }
}

/// Partitions that are active and that the journal has for nobody.
pub(super) fn unowned(table: &Table, rows: &[PartitionRow]) -> Vec<Difference> {
    let owned: Vec<PartitionId> = rows
        .iter()
        .filter_map(|row| Some(table.journaled(row)?.id))
        .collect();
    let foreign = table.active().filter(|one| !owned.contains(&one.id));
    foreign
        .map(|one| {
            let message = format!(
                "Partition {} of the GPUs {} is active, and no VM of this host has it.",
                one.id,
                super::listed(&one.modules)
            );
            Difference::new(Kind::Unowned, one.id, None, message)
        })
        .collect()
}

/// Replaces what is known by what was found; what stays has been so since it was first found.
pub(super) fn replace(known: &mut Vec<Difference>, mut found: Vec<Difference>) {
    for one in &mut found {
        let same = |before: &&Difference| {
            (before.kind, before.id, before.allocation) == (one.kind, one.id, one.allocation)
        };
        if let Some(before) = known.iter().find(same) {
            one.since_ms = before.since_ms;
        }
    }
    *known = found;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d_80_a_difference_that_stays_has_been_so_since_it_was_first_found() {
        let found = |id, message: &str| Difference::new(Kind::Unowned, id, None, message.into());
        let mut known = vec![Difference {
            since_ms: 5,
            ..found(3, "before")
        }];
        replace(&mut known, vec![found(3, "now"), found(4, "now")]);
        assert_eq!((known[0].since_ms, known[0].message.as_str()), (5, "now"));
        assert!(known[1].since_ms > 5);
        let other = Difference {
            kind: Kind::Unknown,
            ..found(3, "now")
        };
        replace(&mut known, vec![other]);
        assert!(known[0].since_ms > 5, "it differs in another way");
        replace(&mut known, Vec::new());
        assert!(known.is_empty());
    }
}
