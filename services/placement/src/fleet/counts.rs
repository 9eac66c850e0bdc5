//! States of GPUs and nodes, and counters that contain each other by construction.

/// The state of a GPU or node in the fleet; each contains those after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FleetState {
    /// In the ledger.
    Delivered,
    /// Nothing says that it is not fit.
    Healthy,
    /// Healthy, and held by a claim or a capacity reservation.
    Reserved,
    /// Reserved, and its allocation is active.
    Active,
}

/// What is known of one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuFacts {
    /// Neither its slot nor its host is known to be unfit. Of bare metal in use nothing is known, and that is well: its
    /// tenant is alone on it.
    pub healthy: bool,
    /// A live claim or a capacity reservation holds it.
    pub held: bool,
    /// The allocation of that claim is active.
    pub active: bool,
}

impl GpuFacts {
    /// From the bits of a row: 1 healthy, 2 held, 4 active.
    pub(super) fn of(bits: i32) -> Self {
        Self {
            healthy: bits & 1 != 0,
            held: bits & 2 != 0,
            active: bits & 4 != 0,
        }
    }

    /// Its state.
    #[must_use]
    pub fn state(self) -> FleetState {
        match self {
            Self { healthy: false, .. } => FleetState::Delivered,
            Self { active: true, .. } => FleetState::Active,
            Self { held: true, .. } => FleetState::Reserved,
            _ => FleetState::Healthy,
        }
    }
}

/// Numbers of one kind of thing, each at most the one before; the last two are beside them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub delivered: u64,
    pub healthy: u64,
    pub reserved: u64,
    pub active: u64,
    /// Held, and not healthy.
    pub reserved_unhealthy: u64,
    /// In an active allocation, and not healthy.
    pub active_unhealthy: u64,
}

impl Counts {
    fn add(&mut self, state: FleetState, held: bool, active: bool) {
        self.delivered += 1;
        self.healthy += u64::from(state >= FleetState::Healthy);
        self.reserved += u64::from(state >= FleetState::Reserved);
        self.active += u64::from(state >= FleetState::Active);
        let unhealthy = state == FleetState::Delivered;
        self.reserved_unhealthy += u64::from(unhealthy && (held || active));
        self.active_unhealthy += u64::from(unhealthy && active);
    }
}

/// Nodes and GPUs of one pool or reservation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FleetCounts {
    pub nodes: Counts,
    pub gpus: Counts,
}

impl FleetCounts {
    /// Counts one node with its GPUs. `host_healthy`: nothing is wrong with the host itself.
    pub fn add(&mut self, host_healthy: bool, gpus: &[GpuFacts]) {
        let mut best = FleetState::Healthy;
        let mut all_healthy = host_healthy;
        for gpu in gpus {
            let state = gpu.state();
            self.gpus.add(state, gpu.held, gpu.active);
            all_healthy &= gpu.healthy;
            best = best.max(state);
        }
        let state = if all_healthy {
            best
        } else {
            FleetState::Delivered
        };
        let held = gpus.iter().any(|gpu| gpu.held);
        let active = gpus.iter().any(|gpu| gpu.active);
        self.nodes.add(state, held, active);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn contain_each_other(counts: &Counts) -> bool {
        counts.delivered >= counts.healthy
            && counts.healthy >= counts.reserved
            && counts.reserved >= counts.active
            && counts.reserved_unhealthy >= counts.active_unhealthy
            && counts.healthy + counts.reserved_unhealthy <= counts.delivered
    }

    fn gpu() -> impl Strategy<Value = GpuFacts> {
        (0..8).prop_map(GpuFacts::of)
    }

    fn node() -> impl Strategy<Value = (bool, Vec<GpuFacts>)> {
        (any::<bool>(), prop::collection::vec(gpu(), 0..9))
    }

    proptest! {
        #[test]
        fn delivered_contains_healthy_contains_reserved_contains_active(
            nodes in prop::collection::vec(node(), 0..40),
        ) {
            let mut counts = FleetCounts::default();
            for (host_healthy, gpus) in &nodes {
                counts.add(*host_healthy, gpus);
            }
            prop_assert!(contain_each_other(&counts.nodes) && contain_each_other(&counts.gpus), "{:?}", counts);
            // nothing is lost: each GPU that is held or active is in exactly one of two counters
            let gpus: Vec<&GpuFacts> = nodes.iter().flat_map(|(_, gpus)| gpus).collect();
            let held = gpus.iter().filter(|gpu| gpu.held || gpu.active).count() as u64;
            let active = gpus.iter().filter(|gpu| gpu.active).count() as u64;
            prop_assert_eq!(counts.gpus.reserved + counts.gpus.reserved_unhealthy, held);
            prop_assert_eq!(counts.gpus.active + counts.gpus.active_unhealthy, active);
            prop_assert_eq!(counts.nodes.delivered, nodes.len() as u64);
            // and a sum is the sum of its parts
            let (first, rest) = nodes.split_at(nodes.len() / 2);
            let mut parts = [FleetCounts::default(), FleetCounts::default()];
            for (part, nodes) in parts.iter_mut().zip([first, rest]) {
                for (host_healthy, gpus) in nodes {
                    part.add(*host_healthy, gpus);
                }
            }
            prop_assert_eq!(parts[0].gpus.healthy + parts[1].gpus.healthy, counts.gpus.healthy);
            prop_assert_eq!(parts[0].nodes.active + parts[1].nodes.active, counts.nodes.active);
        }
    }

    #[test]
    fn a_node_with_one_sick_gpu_is_delivered_and_the_use_of_it_is_not_hidden() {
        let (well, sick) = (GpuFacts::of(0b111), GpuFacts::of(0b110));
        let mut counts = FleetCounts::default();
        counts.add(
            true,
            &[well, sick, GpuFacts::of(0b011), GpuFacts::of(0b001)],
        );
        let gpus = Counts {
            delivered: 4,
            healthy: 3,
            reserved: 2,
            active: 1,
            reserved_unhealthy: 1,
            active_unhealthy: 1,
        };
        assert_eq!(counts.gpus, gpus);
        let nodes = Counts {
            delivered: 1,
            reserved_unhealthy: 1,
            active_unhealthy: 1,
            ..Counts::default()
        };
        assert_eq!(counts.nodes, nodes);
        counts.add(true, &[]);
        assert_eq!(
            (
                counts.nodes.delivered,
                counts.nodes.healthy,
                counts.nodes.reserved
            ),
            (2, 1, 0)
        );
    }
}
