//! The sessions of this process, by id.
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use uuid::Uuid;

use super::kill::Kill;
use super::link::Command;
use crate::domain::end::End;

/// What others know of a session.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(crate) allocation_id: Uuid,
    pub(crate) project_id: Uuid,
    pub(crate) principal: String,
    pub(crate) origin: String,
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) kill: Kill,
}

/// All of them.
#[derive(Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<HashMap<Uuid, Handle>>>);

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Handle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, session_id: Uuid, handle: Handle) {
        self.lock().insert(session_id, handle);
    }

    pub(crate) fn remove(&self, session_id: Uuid) {
        self.lock().remove(&session_id);
    }

    pub(crate) fn get(&self, session_id: Uuid) -> Option<Handle> {
        self.lock().get(&session_id).cloned()
    }

    /// All ids.
    pub(crate) fn ids(&self) -> Vec<Uuid> {
        self.lock().keys().copied().collect()
    }

    /// Ends the sessions into an allocation.
    pub(crate) fn end_allocation(&self, allocation_id: Uuid, end: &End) {
        for handle in self
            .lock()
            .values()
            .filter(|handle| handle.allocation_id == allocation_id)
        {
            handle.kill.order(end.clone());
        }
    }

    /// Ends all sessions.
    pub(crate) fn end_all(&self, end: &End) {
        for handle in self.lock().values() {
            handle.kill.order(end.clone());
        }
    }
}
