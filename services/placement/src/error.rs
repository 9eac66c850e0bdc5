//! Errors of the ledger, and how they read on the wire.
use gpuaas_common::error::reason_name;
use gpuaas_placement_decision::{Cause, UnschedulableReason};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;
use uuid::Uuid;

/// Name of the limit on the GPUs of a SKU, for programs.
pub(crate) const GPUS: &str = "gpus";
/// Name of the limit on the allocations of a project, for programs.
pub(crate) const ALLOCATIONS: &str = "allocations";

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One unschedulable reason, with the GPUs and nodes it removes (B-57, B-58).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The closed reason.
    pub reason: ErrorReason,
    /// GPUs that this reason removes.
    pub gpus: u32,
    /// Nodes that this reason removes.
    pub nodes: u32,
    /// A sentence for the user.
    pub message: String,
}

impl From<UnschedulableReason> for Reason {
    fn from(found: UnschedulableReason) -> Self {
        Self {
            reason: reason_of(found.cause),
            gpus: found.gpus,
            nodes: found.nodes,
            message: found.message,
        }
    }
}

/// The result of the decision, as the ledger reports it.
pub(crate) fn reasons(found: Vec<UnschedulableReason>) -> Vec<Reason> {
    found.into_iter().map(Reason::from).collect()
}

/// The closed reason code.
fn reason_of(cause: Cause) -> ErrorReason {
    match cause {
        Cause::Fragmented => ErrorReason::Fragmented,
        Cause::FabricHeld => ErrorReason::FabricHeld,
        Cause::IncompleteSlot => ErrorReason::IncompleteSlot,
        Cause::CleanupBlocked => ErrorReason::CleanupBlocked,
        Cause::HugepagesMissing => ErrorReason::HugepagesMissing,
        Cause::NodeDraining => ErrorReason::NodeDraining,
        Cause::SlotUnhealthy => ErrorReason::SlotUnhealthy,
        Cause::DisksBeingWiped => ErrorReason::DisksBeingWiped,
        Cause::SlotsInUse => ErrorReason::SlotsInUse,
        Cause::NodeVmLimit => ErrorReason::NodeVmLimit,
        Cause::CapacityReserved => ErrorReason::CapacityReserved,
        Cause::Affinity => ErrorReason::Affinity,
        Cause::ImageNotCached => ErrorReason::ImageNotCached,
        Cause::QueuedAhead => ErrorReason::QueuedAhead,
        Cause::HostNotReady => ErrorReason::HostNotReady,
        Cause::NoCapacity => ErrorReason::NoCapacity,
    }
}

/// What a reason means, for the user.
#[must_use]
pub fn sentence(reason: ErrorReason) -> &'static str {
    match reason {
        ErrorReason::RegionDisabled => "The region is disabled.",
        ErrorReason::Quota => "The project's quota is used up.",
        ErrorReason::ReservationLimit => "The project's reservation limit is used up.",
        ErrorReason::ProjectSuspended => "The project is suspended, or its organisation is.",
        other => Cause::all()
            .find(|cause| reason_of(*cause) == other)
            .unwrap_or(Cause::NoCapacity)
            .sentence(),
    }
}

/// A limit that a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// Which: "gpus" of a SKU, "allocations", "waiting_allocations" or "reserved_gpus" of a project.
    pub quota: &'static str,
    /// How many there may be.
    pub limit: i64,
    /// How many there are.
    pub used: i64,
    /// How many more were requested.
    pub requested: i64,
}

/// Why the ledger did not change.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another runner holds the workflow now, or it has ended. Nothing was changed; stop working on it.
    #[error("workflow lease is stale")]
    StaleLease,
    /// No such row in the given scope.
    #[error("{what} {id} does not exist")]
    NotFound {
        /// Kind of row: "allocation", "node", "slot".
        what: &'static str,
        /// The id or code that was requested.
        id: String,
    },
    /// The row is in a state from which this is not possible.
    #[error("{what} {id} is {state}")]
    Conflict {
        /// Kind of row.
        what: &'static str,
        id: Uuid,
        /// The state it is in.
        state: String,
    },
    /// A field of the request breaks a rule; nothing was stored.
    #[error("{field}: {rule}")]
    Invalid {
        /// Closed reason.
        reason: ErrorReason,
        /// Field of the request.
        field: &'static str,
        /// The rule, as a sentence part.
        rule: String,
    },
    /// No capacity, no quota or the region is closed; nothing was stored and the key may be used again.
    #[error("refused: {}", reason_name(*reason))]
    Refused {
        /// The leading reason.
        reason: ErrorReason,
        /// A sentence for the user.
        message: String,
        /// All reasons.
        causes: Vec<Reason>,
        /// The limit, where one was exceeded.
        exceeded: Option<Exceeded>,
    },
    /// The name is taken by another allocation of the project that has not ended.
    #[error("name {0:?} is taken")]
    NameTaken(String),
    /// Others were placing on every node that fits, until the placement timeout of the request. Nothing was stored.
    #[error("{nodes} nodes stayed busy")]
    Busy {
        /// Nodes that would have fitted.
        nodes: usize,
    },
    /// Contention: the transaction was rolled back and is retried.
    #[error("contention")]
    Contention,
    /// Others were reading the nodes into memory for too long. Nothing was changed.
    #[error("others read the nodes for too long")]
    Reading,
    /// One request of a batch was refused, and so all of them were.
    #[error("request {index}: {source}")]
    InBatch {
        /// Its index in the batch, from 0.
        index: usize,
        /// Why.
        source: Box<Error>,
    },
    /// The evidence does not cover what it must.
    #[error("evidence does not cover slot {0}")]
    EvidenceMissing(Uuid),
    /// From `gpuaas_common`: idempotency, audit.
    #[error("{0}")]
    Common(#[from] gpuaas_common::Error),
    /// From the database, constraint violations included.
    #[error("ledger database")]
    Database(#[from] sqlx::Error),
}

impl Error {
    pub(crate) fn not_found(what: &'static str, id: impl std::fmt::Display) -> Self {
        Self::NotFound {
            what,
            id: id.to_string(),
        }
    }

    /// Says which request of a batch this is about. Errors that are about no request stay as they are.
    pub(crate) fn in_batch(self, index: usize) -> Self {
        match self {
            Self::Invalid { .. } | Self::Refused { .. } | Self::NameTaken(_) => Self::InBatch {
                index,
                source: Box::new(self),
            },
            other => other,
        }
    }

    /// Whether the transaction failed by contention: a node taken meanwhile, a reading that takes too long,
    /// serialization failure, deadlock, lock timeout, or a key that another call recorded first.
    pub(crate) fn is_contention(&self) -> bool {
        let state = self.sqlstate();
        matches!(self, Self::Contention | Self::Reading)
            || matches!(state.as_deref(), Some("40001" | "40P01" | "55P03"))
    }

    /// SQLSTATE of a database error.
    pub(crate) fn sqlstate(&self) -> Option<String> {
        match self {
            Self::Database(error) => error
                .as_database_error()?
                .code()
                .map(std::borrow::Cow::into_owned),
            _ => None,
        }
    }
}

impl From<Error> for gpuaas_common::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::StaleLease => Self::new(Code::Aborted, ErrorReason::StateConflict, "another replica works on this now"),
            Error::NotFound { what, id } => {
                let reason = match what {
                    "allocation" => ErrorReason::AllocationNotFound,
                    "node" => ErrorReason::NodeNotFound,
                    "slot" => ErrorReason::SlotNotFound,
                    "sku" => ErrorReason::SkuUnknown,
                    "region" => ErrorReason::RegionUnknown,
                    _ => ErrorReason::NotFound,
                };
                Self::new(Code::NotFound, reason, format!("There is no {what} {id}."))
            }
            Error::Conflict { what, id, state } => Self::new(
                Code::FailedPrecondition,
                ErrorReason::StateConflict,
                format!("The {what} {id} is {state}; this is not possible in that state."),
            )
            .meta("state", state),
            Error::Invalid { reason, field, rule } => {
                Self::new(Code::InvalidArgument, reason, format!("{field}: {rule}")).field(field, rule)
            }
            Error::Refused { reason, message, causes, exceeded } => {
                let code = match reason {
                    ErrorReason::RegionDisabled => Code::FailedPrecondition,
                    _ => Code::ResourceExhausted,
                };
                let refused = match reason {
                    ErrorReason::RegionDisabled => {
                        Self::new(code, reason, message).field("region_code", "must be a region that is open")
                    }
                    ErrorReason::Quota => {
                        let of_allocations = exceeded.is_some_and(|limit| limit.quota == ALLOCATIONS);
                        let (field, rule) = if of_allocations {
                            ("project_id", "must be a project whose quota allows one more allocation")
                        } else {
                            ("gpu_count", "must fit the project's quota")
                        };
                        Self::new(code, reason, message).field(field, rule)
                    }
                    ErrorReason::ReservationLimit => Self::new(code, reason, message)
                        .field("gpu_count", "must fit the project's reservation limit"),
                    _ => Self::new(code, reason, message),
                };
                let refused = match exceeded {
                    Some(limit) => refused
                        .meta("quota", limit.quota)
                        .meta("limit", limit.limit.to_string())
                        .meta("used", limit.used.to_string())
                        .meta("requested", limit.requested.to_string()),
                    None => refused,
                };
                causes.into_iter().fold(refused, |error, cause| {
                    let name = reason_name(cause.reason);
                    error
                        .meta(format!("{name}.gpus"), cause.gpus.to_string())
                        .meta(format!("{name}.nodes"), cause.nodes.to_string())
                        .meta(format!("{name}.message"), cause.message)
                })
            }
            Error::NameTaken(name) => Self::new(
                Code::AlreadyExists,
                ErrorReason::AlreadyExists,
                format!("The project already has an allocation named {name:?}. Choose another name or release it."),
            )
            .field("name", "must be unique among the project's allocations that have not ended"),
            Error::Contention => Self::from(Error::Busy { nodes: 1 }),
            Error::Busy { nodes } => Self::new(
                Code::Unavailable,
                ErrorReason::Overloaded,
                "Other launches are being placed on every node that fits. Try again in a moment.",
            )
            .meta("busy_nodes", nodes.to_string()),
            Error::Reading => Self::new(
                Code::Unavailable,
                ErrorReason::Overloaded,
                "Reading the nodes takes too long. Try again in a moment.",
            ),
            Error::InBatch { index, source } => of_batch(index, &Self::from(*source)),
            Error::EvidenceMissing(slot) => Self::new(
                Code::FailedPrecondition,
                ErrorReason::WipeNotProven,
                format!("Slot {slot} has no evidence that it is clean."),
            ),
            Error::Common(error) => error,
            Error::Database(error) => error.into(),
        }
    }
}

/// The refusal of one request as the refusal of its batch: fields get the request's index as prefix.
#[must_use]
pub fn of_batch(index: usize, error: &gpuaas_common::Error) -> gpuaas_common::Error {
    let place = format!("allocations[{index}]");
    let message = format!("{place}: {} The batch was not launched.", error.message());
    let mut whole = gpuaas_common::Error::new(error.code(), error.reason(), message)
        .meta("index", index.to_string());
    for (field, rule) in error.fields() {
        whole = whole.field(format!("{place}.{field}"), rule);
    }
    for (key, value) in error.metadata() {
        whole = whole.meta(key, value);
    }
    whole
}

/// A reason without numbers.
pub(crate) fn cause(reason: ErrorReason) -> Reason {
    Reason {
        reason,
        gpus: 0,
        nodes: 0,
        message: sentence(reason).to_owned(),
    }
}
