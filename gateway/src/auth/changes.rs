//! What the database tells of changes to who may call, and whom each concerns.
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::store::Principal;

/// Whom a change of access concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Perhaps everybody.
    Everybody,
    /// One principal.
    Principal(Uuid),
    /// Who is in an organisation or in a project of it.
    Organisation(Uuid),
}

impl Change {
    /// From a notification; of one that this release does not know, everybody.
    pub(super) fn read(payload: &str) -> Self {
        let read = match payload.strip_prefix("organisation:") {
            Some(id) => id.parse().map(Self::Organisation),
            None => payload.parse().map(Self::Principal),
        };
        read.unwrap_or(Self::Everybody)
    }

    /// Whether it concerns a principal as it was before.
    pub(super) fn concerns(self, principal: &Principal) -> bool {
        match self {
            Self::Everybody => true,
            Self::Principal(id) => principal.id == id,
            Self::Organisation(id) => {
                principal.owners.contains(&id) || principal.role_in_organisation(id).is_some()
            }
        }
    }
}

/// Changes of access, as they are heard of.
#[derive(Debug)]
pub struct Changes(broadcast::Receiver<Change>);

impl Changes {
    pub(super) fn new(receiver: broadcast::Receiver<Change>) -> Self {
        Self(receiver)
    }

    /// Returns when the access of this principal may have changed.
    pub async fn of(&mut self, principal: &Principal) {
        loop {
            match self.0.recv().await {
                Ok(changed) if !changed.concerns(principal) => {}
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return,
                // the process ends
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}
