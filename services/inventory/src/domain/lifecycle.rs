//! Where a node is in its lifecycle, and which step of its onboarding is next, derived from what is known of it now (A-11, A-12,
//! Nothing of it is stored, so nothing of it can be wrong.
use super::names::NodeMode;
use super::readiness::NO_EVIDENCE;

/// Blocker: the host was installed with the profile of another mode.
pub const PROFILE_MISMATCH: &str = "profile_mismatch";

/// A state of a node's lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifecycleState {
    /// Its agent has not enrolled.
    Registered,
    /// Enrolled, and nothing is known of its host yet.
    Enrolled,
    /// Not proven to be ready.
    Validating,
    /// Its slots are schedulable.
    Ready,
    Cordoned,
    Draining,
    /// Somebody works on the host.
    Maintenance,
    /// It has an open break-fix record.
    Broken,
    /// Out of service for good.
    Retired,
    /// Registered by mistake.
    Deleted,
}

/// How a node ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// It was in service before.
    Retired,
    /// It was registered by mistake.
    Deleted,
}

impl Removed {
    /// The value in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retired => "retired",
            Self::Deleted => "deleted",
        }
    }

    /// The value from the database.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Retired, Self::Deleted]
            .into_iter()
            .find(|one| one.as_str() == text)
    }
}

/// What the ledger tells of a node's slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slots {
    /// All but retired ones.
    pub approved: usize,
    /// Those that are proven clean or in use.
    pub usable: usize,
}

/// What is known of a node at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// How it ended, if it did.
    pub removed: Option<Removed>,
    pub mode: NodeMode,
    /// An agent has enrolled.
    pub enrolled: bool,
    /// Name of the profile that the host was installed with.
    pub host_profile: &'a str,
    /// Why the host is not ready, see [`super::readiness`].
    pub blockers: &'a [String],
    /// The current instance's topology was discovered.
    pub discovered: bool,
    /// An operator has reviewed candidates of that and approved some.
    pub reviewed: bool,
    /// None: the ledger does not answer.
    pub slots: Option<Slots>,
    /// The operator's intent in the ledger; empty: enabled, or the ledger does not know the node.
    pub admin_state: &'a str,
    /// Why the ledger places nothing on it whatever the host proves; none: it does.
    pub ledger_blocker: Option<&'a str>,
}

/// A state with what it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lifecycle {
    pub state: LifecycleState,
    /// What the host does not prove; empty for an operator's state, whose reason is the operator's.
    pub waits_for: String,
}

/// Whether a host of this profile is meant for this mode. A profile that names neither mode fits both.
#[must_use]
pub fn profile_fits(mode: NodeMode, host_profile: &str) -> bool {
    let name = host_profile.to_ascii_lowercase();
    let of_baremetal = name.contains("baremetal") || name.contains("bare-metal");
    let of_slices = name.contains("slice");
    match mode {
        NodeMode::Slice => !of_baremetal,
        NodeMode::Baremetal => !of_slices,
    }
}

/// Where the node is in its lifecycle.
#[must_use]
pub fn lifecycle(facts: &Facts<'_>) -> Lifecycle {
    let of = |state| Lifecycle {
        state,
        waits_for: String::new(),
    };
    match facts.removed {
        Some(Removed::Retired) => return of(LifecycleState::Retired),
        Some(Removed::Deleted) => return of(LifecycleState::Deleted),
        None => {}
    }
    match facts.admin_state {
        "cordoned" => return of(LifecycleState::Cordoned),
        "draining" => return of(LifecycleState::Draining),
        "maintenance" => return of(LifecycleState::Maintenance),
        "broken" => return of(LifecycleState::Broken),
        "retired" => return of(LifecycleState::Retired),
        _ => {}
    }
    let next = onboarding(facts)
        .into_iter()
        .find(|step| step.state == StepState::Current);
    let Some(next) = next else {
        return of(LifecycleState::Ready);
    };
    let state = if !facts.enrolled {
        LifecycleState::Registered
    } else if facts.blockers == [NO_EVIDENCE] {
        LifecycleState::Enrolled
    } else {
        LifecycleState::Validating
    };
    Lifecycle {
        state,
        waits_for: next.detail,
    }
}

/// State of an onboarding step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepState {
    Done,
    /// The next one.
    Current,
    /// Waits for those before it.
    Waiting,
    /// Does not apply to the mode of the node.
    NotNeeded,
}

/// A step of the onboarding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub name: &'static str,
    pub state: StepState,
    /// What it waits for.
    pub detail: String,
}

/// The steps of A-22 in their order. None is done before all before it are.
#[must_use]
pub fn onboarding(facts: &Facts<'_>) -> Vec<Step> {
    let ready = facts.enrolled && facts.blockers.is_empty();
    let fits = facts.enrolled && profile_fits(facts.mode, facts.host_profile);
    let slots = facts.slots.unwrap_or_default();
    let of_slices = facts.mode == NodeMode::Slice;
    let unseen = "a host of this node has to enrol: create an enrolment token and install the host";
    let tag = if facts.enrolled {
        "the host has the profile of another mode: tag the machine for the mode of this node, and install it anew"
    } else {
        unseen
    };
    let failing = if !facts.enrolled {
        unseen.to_owned()
    } else if facts.blockers == [NO_EVIDENCE] {
        "the host has not reported what it proves yet".to_owned()
    } else {
        format!("the host has to prove: {}", facts.blockers.join(", "))
    };
    let unanswered = "the scheduler does not answer";
    let approve = match facts.slots {
        None => unanswered,
        Some(_) => "approve candidates of the discovery",
    };
    let in_service = facts.admin_state.is_empty() || facts.admin_state == "enabled";
    let usable = slots.usable > 0 || !of_slices;
    let activate = match (facts.slots, facts.ledger_blocker) {
        (None, _) => unanswered.to_owned(),
        _ if !in_service => "uncordon the node".to_owned(),
        (_, Some(why)) => format!("the scheduler has to take the node in: {why}"),
        _ => "a slot has to be enabled, and wiped and verified".to_owned(),
    };
    let active = in_service && usable && facts.ledger_blocker.is_none();
    // name, applies, is so, what it waits for
    let known = [
        ("commission", true, facts.enrolled, unseen.to_owned()),
        ("tag", true, fits, tag.to_owned()),
        ("deploy", true, ready, failing),
        ("enrol", true, facts.enrolled, unseen.to_owned()),
        (
            "discover",
            of_slices,
            facts.discovered,
            "discover the topology of the host".to_owned(),
        ),
        (
            "review",
            of_slices,
            facts.reviewed,
            "review the candidates of the discovery".to_owned(),
        ),
        ("approve", of_slices, slots.approved > 0, approve.to_owned()),
        ("activate", true, active, activate),
    ];
    let mut open = false;
    known
        .into_iter()
        .map(|(name, applies, is_so, waits_for)| {
            let state = match (applies, open, is_so) {
                (false, ..) => StepState::NotNeeded,
                (true, true, _) => StepState::Waiting,
                (true, false, true) => StepState::Done,
                (true, false, false) => StepState::Current,
            };
            open |= state == StepState::Current;
            let detail = match state {
                StepState::Current => waits_for,
                _ => String::new(),
            };
            Step {
                name,
                state,
                detail,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: Facts<'static> = Facts {
        removed: None,
        mode: NodeMode::Slice,
        enrolled: true,
        host_profile: "gpuaas-profile-slice-vm",
        blockers: &[],
        discovered: true,
        reviewed: true,
        slots: Some(Slots {
            approved: 8,
            usable: 8,
        }),
        admin_state: "enabled",
        ledger_blocker: None,
    };

    fn current(facts: &Facts<'_>) -> Option<&'static str> {
        let steps = onboarding(facts);
        assert_eq!(steps.len(), 8);
        let of = |state| move |step: &&Step| step.state == state;
        assert!(steps.iter().filter(of(StepState::Current)).count() <= 1);
        steps
            .iter()
            .find(of(StepState::Current))
            .map(|step| step.name)
    }

    #[test]
    fn a_22_a_23_no_step_is_done_before_those_before_it() {
        let blocked = ["nat_missing".to_owned()];
        let none = Slots::default();
        let cases = [
            (
                Facts {
                    enrolled: false,
                    ..READY
                },
                Some("commission"),
                LifecycleState::Registered,
            ),
            (
                Facts {
                    host_profile: "gpuaas-profile-baremetal",
                    ..READY
                },
                Some("tag"),
                LifecycleState::Validating,
            ),
            (
                Facts {
                    blockers: &blocked,
                    ..READY
                },
                Some("deploy"),
                LifecycleState::Validating,
            ),
            (
                Facts {
                    discovered: false,
                    ..READY
                },
                Some("discover"),
                LifecycleState::Validating,
            ),
            (
                Facts {
                    reviewed: false,
                    ..READY
                },
                Some("review"),
                LifecycleState::Validating,
            ),
            (
                Facts {
                    slots: Some(none),
                    ..READY
                },
                Some("approve"),
                LifecycleState::Validating,
            ),
            (
                Facts {
                    slots: Some(Slots {
                        approved: 8,
                        usable: 0,
                    }),
                    ..READY
                },
                Some("activate"),
                LifecycleState::Validating,
            ),
            (
                Facts {
                    slots: None,
                    ..READY
                },
                Some("approve"),
                LifecycleState::Validating,
            ),
            (
                Facts {
                    ledger_blocker: Some("configuration_waits"),
                    ..READY
                },
                Some("activate"),
                LifecycleState::Validating,
            ),
            (READY, None, LifecycleState::Ready),
        ];
        for (facts, step, state) in cases {
            assert_eq!(current(&facts), step, "{facts:?}");
            let now = lifecycle(&facts);
            assert_eq!(now.state, state, "{facts:?}");
            assert_eq!(
                now.waits_for.is_empty(),
                state == LifecycleState::Ready,
                "{now:?}"
            );
            let steps = onboarding(&facts);
            let open = steps.iter().position(|step| step.state != StepState::Done);
            let after = &steps[open.unwrap_or(8)..];
            assert!(
                after.iter().all(|step| step.state != StepState::Done),
                "{steps:?}"
            );
        }
    }

    #[test]
    fn a_12_enrolled_and_ready_are_two_states() {
        let nothing = [NO_EVIDENCE.to_owned()];
        let facts = Facts {
            blockers: &nothing,
            ..READY
        };
        assert_eq!(lifecycle(&facts).state, LifecycleState::Enrolled);
    }

    #[test]
    fn a_47_a_bare_metal_host_is_judged_as_one() {
        let facts = Facts {
            mode: NodeMode::Baremetal,
            host_profile: "gpuaas-profile-baremetal",
            discovered: false,
            reviewed: false,
            slots: Some(Slots::default()),
            ..READY
        };
        assert_eq!(lifecycle(&facts).state, LifecycleState::Ready);
        let steps = onboarding(&facts);
        let not_needed: Vec<&str> = steps
            .iter()
            .filter(|step| step.state == StepState::NotNeeded)
            .map(|step| step.name)
            .collect();
        assert_eq!(not_needed, ["discover", "review", "approve"]);
    }

    /// the profiles have the names of the tags.
    // partly A-42: the name reaches the platform with the deployed profile; MAAS is not asked for its tag
    // partly A-43: the name reaches the platform with the deployed profile; MAAS is not asked for its tag
    // partly A-46: the name reaches the platform with the deployed profile; MAAS is not asked for its tag
    // partly A-141: the name reaches the platform with the deployed profile; MAAS is not asked for its tag
    #[test]
    fn a_48_a_host_of_another_mode_is_not_of_this_node() {
        for (mode, profile, fits) in [
            (NodeMode::Slice, "gpuaas-profile-slice-vm", true),
            (NodeMode::Slice, "lab", true),
            (NodeMode::Slice, "gpuaas-profile-baremetal", false),
            (NodeMode::Baremetal, "gpuaas-profile-baremetal", true),
            (NodeMode::Baremetal, "gpuaas-profile-slice-vm", false),
        ] {
            assert_eq!(profile_fits(mode, profile), fits, "{mode} {profile}");
        }
    }

    #[test]
    fn an_operators_word_goes_before_what_the_host_proves() {
        for (word, state) in [
            ("cordoned", LifecycleState::Cordoned),
            ("draining", LifecycleState::Draining),
            ("maintenance", LifecycleState::Maintenance),
            ("broken", LifecycleState::Broken),
            ("retired", LifecycleState::Retired),
        ] {
            let facts = Facts {
                admin_state: word,
                ..READY
            };
            assert_eq!(lifecycle(&facts).state, state);
            assert_eq!(
                current(&facts),
                Some("activate"),
                "not active for scheduling"
            );
        }
        for (removed, state) in [
            (Removed::Retired, LifecycleState::Retired),
            (Removed::Deleted, LifecycleState::Deleted),
        ] {
            let facts = Facts {
                removed: Some(removed),
                ..READY
            };
            assert_eq!(lifecycle(&facts).state, state);
            assert_eq!(Removed::parse(removed.as_str()), Some(removed));
        }
    }
}
