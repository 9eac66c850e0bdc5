//! What may differ between ledger, host and hypervisor of one allocation.

use uuid::Uuid;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Discrepancy {
    /// A domain of an allocation that is over.
    LeakedDomain(Uuid),
    /// A DHCP reservation of an allocation that is over.
    LeakedReservation(Uuid),
    /// A hold of an allocation for which the ledger holds nothing.
    LeakedHold(Uuid),
    /// An active allocation without a domain.
    MissingDomain(Uuid),
    /// An active allocation with a domain, whose slots its host does not hold.
    MissingHold(Uuid),
    /// An active allocation with a domain, whose address is not reserved on its host.
    MissingReservation(Uuid),
    /// A VM that ought to run and is shut off.
    UnexpectedShutdown {
        /// The allocation.
        id: Uuid,
        /// The boot that ended.
        boot_id: Option<Uuid>,
        /// The host was restarted; otherwise the guest shut itself down.
        with_host: bool,
    },
    /// A port on the bridge of an allocation that is over.
    LeakedPort(Uuid),
    /// An NVSwitch partition of an allocation that is over.
    LeakedPartition(Uuid),
    /// A seed of an allocation that is over.
    LeakedSeed(Uuid),
    /// NVRAM of an allocation that is over.
    LeakedNvram(Uuid),
    /// A seed of an active allocation: its guest has booted, and the private host key in it is of no use any more.
    KeptSeed(Uuid),
    /// A domain of an active allocation that names files which are not there.
    MissingFiles(Uuid),
    /// The guest of a VM that runs has not answered its host for some time (D-80).
    UnresponsiveGuest(Uuid),
    /// The guest of a VM that runs answers, and its GPUs have not for some time (D-80).
    GuestGpusFailed(Uuid),
}

impl Discrepancy {
    /// Name of the kind, for metric and log.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::LeakedDomain(_) => "leaked_domain",
            Self::LeakedReservation(_) => "leaked_reservation",
            Self::LeakedHold(_) => "leaked_hold",
            Self::MissingDomain(_) => "missing_domain",
            Self::MissingHold(_) => "missing_hold",
            Self::MissingReservation(_) => "missing_reservation",
            Self::UnexpectedShutdown { .. } => "unexpected_shutdown",
            Self::LeakedPort(_) => "leaked_port",
            Self::LeakedPartition(_) => "leaked_partition",
            Self::LeakedSeed(_) => "leaked_seed",
            Self::LeakedNvram(_) => "leaked_nvram",
            Self::KeptSeed(_) => "kept_seed",
            Self::MissingFiles(_) => "missing_files",
            Self::UnresponsiveGuest(_) => "unresponsive_guest",
            Self::GuestGpusFailed(_) => "guest_gpus_failed",
        }
    }

    /// It is removed with what the ledger's hold on it allows: domain, NVRAM, seed, reservation, port, partition.
    #[must_use]
    pub fn is_removable(&self) -> bool {
        matches!(
            self,
            Self::LeakedDomain(_)
                | Self::LeakedReservation(_)
                | Self::LeakedPort(_)
                | Self::LeakedPartition(_)
                | Self::LeakedSeed(_)
                | Self::LeakedNvram(_)
        )
    }

    /// It is wrong in a guest: nothing of it is left over.
    #[must_use]
    pub fn is_of_guest(&self) -> bool {
        matches!(self, Self::UnresponsiveGuest(_) | Self::GuestGpusFailed(_))
    }

    /// The allocation.
    #[must_use]
    pub fn allocation_id(&self) -> Uuid {
        match self {
            Self::LeakedDomain(id)
            | Self::LeakedReservation(id)
            | Self::LeakedHold(id)
            | Self::MissingDomain(id)
            | Self::MissingHold(id)
            | Self::MissingReservation(id)
            | Self::LeakedPort(id)
            | Self::LeakedPartition(id)
            | Self::LeakedSeed(id)
            | Self::LeakedNvram(id)
            | Self::KeptSeed(id)
            | Self::MissingFiles(id)
            | Self::UnresponsiveGuest(id)
            | Self::GuestGpusFailed(id)
            | Self::UnexpectedShutdown { id, .. } => *id,
        }
    }
}

/// All kinds of residue, so that a metric shows zero too.
pub const KINDS: [&str; 13] = [
    "leaked_domain",
    "leaked_reservation",
    "leaked_hold",
    "missing_domain",
    "missing_hold",
    "missing_reservation",
    "unexpected_shutdown",
    "leaked_port",
    "leaked_partition",
    "leaked_seed",
    "leaked_nvram",
    "kept_seed",
    "missing_files",
];

/// Kinds of what is wrong in a guest, which is its owner's and no residue.
pub const GUEST_KINDS: [&str; 2] = ["unresponsive_guest", "guest_gpus_failed"];
