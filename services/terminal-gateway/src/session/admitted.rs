//! A session between its ticket and its task.
use jiff::Timestamp;
use uuid::Uuid;

use super::Deps;
use crate::config::Policy;
use crate::domain::kind::Kind;

/// A session that has its row.
pub(crate) struct Admitted {
    pub(crate) deps: Deps,
    pub(crate) session_id: Uuid,
    pub(crate) allocation_id: Uuid,
    pub(crate) project_id: Uuid,
    pub(crate) principal: String,
    pub(crate) kind: Kind,
    pub(crate) recording: Policy,
    pub(crate) end_time: Timestamp,
}
