//! SQL of the allocation service that is not the ledger's own: workflow rows and read models.

pub(crate) mod owned;
pub mod read;
pub mod residue;
pub mod visits;
pub mod workflow_rows;
