//! Capacity reservations: GPUs of a SKU that only one project may draw on for a while.
//!
//! What is reserved is bound slot by slot: the database refuses a claim on a reserved slot, and on a node with one, for
//! any other project. A slot is reserved the way it is allocated, by the same decision under the same node's lock, so a
//! reserved slot can be launched on. What has no slots yet is not promised: a reservation states how many slots it has of
//! what it reserves. Reservations are not queued; they take free capacity before queued requests do.
//!
//! [`reconcile`] does what time brings: it begins windows, reserves missing slots, replaces what is not fit any more, releases
//! unused slots, and ends windows. A running allocation is never touched by any of it.
/// Whether a reserved slot `h` can be launched on, now or once its allocation has ended; its slot is `s`, on node `n`, and
/// its reservation in `$region`. A host that merely does not report, so that the health of all its slots is unknown, changes
/// nothing.
macro_rules! fits {
    ($region:literal) => {
        concat!(
            "(s.status NOT IN ('cleanup', 'cleanup_blocked')
              AND (h.idle_since IS NULL OR s.status = 'available' AND s.health_state <= 'unknown'
                   AND n.admin_state = 'enabled' AND n.region_code = ",
            $region,
            "))"
        )
    };
}

mod create;
mod end;
mod hold;
mod limit;
mod message;
mod reconcile;
mod record;
mod stored;

pub use create::{
    ADMIN_METHOD, MAX_AHEAD, MAX_GPUS, MAX_WINDOW, METHOD, ReservationSpec, UNUSED_SECONDS, create,
};
pub use end::{CANCEL_METHOD, Cancellation, cancel};
pub use limit::{Limit, limit, put_limit};
pub use message::message;
pub use reconcile::{Reconciled, reconcile};
pub use stored::{CapacityReservation, Query, RESERVATIONS, get, launches, list, reserved_gpus};
