//! Closed sets of values and how the database has them.
use gpuaas_placement_decision::model::Health;
use serde::{Deserialize, Serialize};
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgTypeInfo, PgValueRef, Postgres};

/// A closed set of values, stored as text.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, sqlx::Type)]
        #[sqlx(type_name = "text", rename_all = "snake_case")]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* #[sqlx(rename = $word)] #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The value in the database.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// All texts.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The value from text.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// Capacity shape; the set is closed (B-04).
    Shape {
        /// A VM that owns GPUs of a node.
        GpuSlice = "gpu_slice",
        /// A bare-metal node.
        Baremetal = "baremetal",
    }
}
words! {
    /// State of an allocation (C-01, C-02).
    AllocationState {
        /// Waits for capacity, nothing is reserved.
        Requested = "requested",
        /// Slots are claimed, no host was touched.
        Reserved = "reserved",
        /// A host works on it.
        Provisioning = "provisioning",
        /// In use, billed.
        Active = "active",
        /// Being taken down, not billed any more.
        Releasing = "releasing",
        /// Over.
        Released = "released",
        /// Over before it was active; see the failure.
        Failed = "failed",
    }
}
words! {
    /// State of a capacity reservation.
    ReservationState {
        /// Its window has not begun.
        Scheduled = "scheduled",
        /// It holds slots, or gathers them.
        Active = "active",
        /// Its window is over, or all of its GPUs were released.
        Ended = "ended",
        /// Somebody ended it.
        Canceled = "canceled",
    }
}
words! {
    /// State of a claim; all but `released` hold the slot.
    ClaimState {
        /// Claimed.
        Reserved = "reserved",
        /// Host works on it.
        Provisioning = "provisioning",
        /// In use.
        Active = "active",
        /// Being taken down.
        Releasing = "releasing",
        /// Waits for a repair.
        CleanupBlocked = "cleanup_blocked",
        /// Over.
        Released = "released",
    }
}
words! {
    /// Priority class of queued requests, lowest first; an operator sets it for a project.
    Priority {
        /// After all others.
        Low = "low",
        /// The default.
        Normal = "normal",
        /// Before all others.
        High = "high",
    }
}
words! {
    /// What proves that a slot holds no tenant data.
    EvidenceKind {
        /// An operator approved a disk on which an inspection had found nothing. Written by earlier releases only.
        Approved = "approved",
        /// Wiped and verified.
        Wiped = "wiped",
        /// No host effect ever began.
        Untouched = "untouched",
        /// The device was destroyed; the slot is never schedulable again.
        Destroyed = "destroyed",
    }
}

/// [`Health`] as the database has it: a type of its own, ordered from best to worst.
#[derive(Debug, Clone, Copy, sqlx::Type)]
#[sqlx(type_name = "health", rename_all = "lowercase")]
pub(crate) enum StoredHealth {
    Healthy,
    Unknown,
    Degraded,
    Failed,
}

impl From<StoredHealth> for Health {
    fn from(stored: StoredHealth) -> Self {
        match stored {
            StoredHealth::Healthy => Self::Healthy,
            StoredHealth::Unknown => Self::Unknown,
            StoredHealth::Degraded => Self::Degraded,
            StoredHealth::Failed => Self::Failed,
        }
    }
}

impl From<Health> for StoredHealth {
    fn from(health: Health) -> Self {
        match health {
            Health::Healthy => Self::Healthy,
            Health::Unknown => Self::Unknown,
            Health::Degraded => Self::Degraded,
            Health::Failed => Self::Failed,
        }
    }
}

/// A value of a closed set as the database has it: text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored<T>(pub T);

impl<T> sqlx::Type<Postgres> for Stored<T> {
    fn type_info() -> PgTypeInfo {
        <String as sqlx::Type<Postgres>>::type_info()
    }

    fn compatible(ty: &PgTypeInfo) -> bool {
        <String as sqlx::Type<Postgres>>::compatible(ty)
    }
}

impl<'r, T> sqlx::Decode<'r, Postgres> for Stored<T>
where
    T: TryFrom<String, Error: std::error::Error + Send + Sync + 'static>,
{
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        let word = <String as sqlx::Decode<'r, Postgres>>::decode(value)?;
        Ok(Self(T::try_from(word)?))
    }
}
