//! Decisions of a rollout of the agent: its waves, and when a node has succeeded or failed.
use uuid::Uuid;

/// A node that a rollout is planned for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    pub id: Uuid,
    pub hostname: String,
    /// Rack or failure domain; empty: unknown.
    pub rack: String,
}

/// Numbers the waves: one host, the rest of its rack, all others. A wave without a node is left out. `first` is one of
/// `nodes`; without it the first by hostname is.
#[must_use]
pub fn waves(nodes: &[Planned], first: Option<Uuid>) -> Vec<(Uuid, i32)> {
    let by_name = nodes.iter().min_by_key(|node| (&node.hostname, node.id));
    let canary = match first {
        Some(id) => nodes.iter().find(|node| node.id == id),
        None => by_name,
    };
    let Some(canary) = canary else {
        return Vec::new();
    };
    let beside = |node: &&Planned| {
        node.id != canary.id && !canary.rack.is_empty() && node.rack == canary.rack
    };
    let (rack, others): (Vec<&Planned>, Vec<&Planned>) = nodes
        .iter()
        .filter(|node| node.id != canary.id)
        .partition(beside);
    let mut waves = vec![(canary.id, 1)];
    let mut number = 1;
    for wave in [rack, others] {
        if wave.is_empty() {
            continue;
        }
        number += 1;
        waves.extend(wave.into_iter().map(|node| (node.id, number)));
    }
    waves
}

/// What is known of a node whose turn it is.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Out of service since.
    pub removed: bool,
    /// As its agent reports.
    pub agent_version: &'a str,
    /// What it is brought to.
    pub version: &'a str,
    /// Recent heartbeats say so.
    pub heard: bool,
    pub blockers: &'a [String],
    /// It was ready before its turn.
    pub was_ready: bool,
    /// A name of `AgentUpdateState`, in lower case; empty: the host has said nothing of this turn.
    pub reported: &'a str,
    pub reported_reason: &'a str,
    /// Its time is over.
    pub overdue: bool,
    /// Its rollout has not ended: a host that waits for its operations may go on waiting.
    pub may_wait: bool,
}

/// What becomes of a node whose turn it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet.
    Wait,
    Succeeded,
    Failed(String),
    Skipped(String),
}

/// Judges a node. A new version counts only once the host is as ready as it was: a package that starts and breaks the host
/// must not go on to the next.
#[must_use]
pub fn judge(node: &Facts<'_>) -> Verdict {
    if node.removed {
        return Verdict::Skipped("The node was taken out of service.".to_owned());
    }
    let fits = node.agent_version == node.version;
    let green = node.heard && (node.blockers.is_empty() || !node.was_ready);
    // an agent that has been asked to install what it runs already says nothing of it
    if fits && green && matches!(node.reported, "" | "installed") {
        return Verdict::Succeeded;
    }
    if node.reported == "failed" {
        let why = match node.reported_reason {
            "" => "The host reports a failure without a reason.",
            why => why,
        };
        return Verdict::Failed(why.to_owned());
    }
    // a wipe takes hours, and nothing of the host is changed meanwhile
    let waits = node.heard && node.reported == "waiting" && node.may_wait;
    if !node.overdue || waits {
        return Verdict::Wait;
    }
    Verdict::Failed(if !node.heard {
        "The host does not report.".to_owned()
    } else if fits && node.blockers.is_empty() {
        "The agent has the version, and its host did not report the end of the update.".to_owned()
    } else if fits {
        format!(
            "The agent has the version, and the host is not ready: {}.",
            node.blockers.join(", ")
        )
    } else if node.reported.is_empty() {
        "The agent did not begin in time; does it know updates?".to_owned()
    } else {
        format!(
            "The agent still has version {} (update {}).",
            node.agent_version, node.reported
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u128, hostname: &str, rack: &str) -> Planned {
        Planned {
            id: Uuid::from_u128(id),
            hostname: hostname.to_owned(),
            rack: rack.to_owned(),
        }
    }

    fn numbers(nodes: &[Planned], first: Option<u128>) -> Vec<(u128, i32)> {
        let mut waves: Vec<(u128, i32)> = waves(nodes, first.map(Uuid::from_u128))
            .into_iter()
            .map(|(id, wave)| (id.as_u128(), wave))
            .collect();
        waves.sort_unstable();
        waves
    }

    #[test]
    fn waves_are_one_host_its_rack_and_all_others() {
        let fleet = [
            node(1, "b", "r1"),
            node(2, "a", "r2"),
            node(3, "c", "r1"),
            node(4, "d", "r2"),
            node(5, "e", ""),
        ];
        assert_eq!(
            numbers(&fleet, None),
            [(1, 3), (2, 1), (3, 3), (4, 2), (5, 3)]
        );
        assert_eq!(
            numbers(&fleet, Some(1)),
            [(1, 1), (2, 3), (3, 2), (4, 3), (5, 3)]
        );
        // an unknown rack is nobody's: there is no second wave of all that have none
        assert_eq!(
            numbers(&[node(1, "a", ""), node(2, "b", "")], None),
            [(1, 1), (2, 2)]
        );
        assert_eq!(numbers(&fleet[..1], None), [(1, 1)]);
        assert_eq!(numbers(&[], None), []);
    }

    #[test]
    fn a_10_a_node_has_succeeded_with_the_version_and_green_readiness_only() {
        let blockers = ["ovs_bridge".to_owned()];
        let good = Facts {
            removed: false,
            agent_version: "new",
            version: "new",
            heard: true,
            blockers: &[],
            was_ready: true,
            reported: "installed",
            reported_reason: "",
            overdue: false,
            may_wait: true,
        };
        assert_eq!(judge(&good), Verdict::Succeeded);
        let waits = [
            Facts {
                agent_version: "old",
                ..good
            },
            Facts {
                blockers: &blockers,
                ..good
            },
            Facts {
                heard: false,
                ..good
            },
            // its updater still watches it, and may roll back
            Facts {
                reported: "installing",
                ..good
            },
        ];
        for (at, facts) in waits.into_iter().enumerate() {
            assert_eq!(judge(&facts), Verdict::Wait, "{at}");
            let late = judge(&Facts {
                overdue: true,
                ..facts
            });
            assert!(
                matches!(late, Verdict::Failed(why) if !why.is_empty()),
                "{at}"
            );
        }
        // one that was not ready before is not held to it
        let worse = Facts {
            blockers: &blockers,
            was_ready: false,
            ..good
        };
        assert_eq!(judge(&worse), Verdict::Succeeded);
        // it waits for an operation of its own, for as long as that takes and the rollout goes on
        let busy = Facts {
            agent_version: "old",
            reported: "waiting",
            overdue: true,
            ..good
        };
        assert_eq!(judge(&busy), Verdict::Wait);
        for facts in [
            Facts {
                heard: false,
                ..busy
            },
            Facts {
                may_wait: false,
                ..busy
            },
        ] {
            assert!(matches!(judge(&facts), Verdict::Failed(_)), "{facts:?}");
        }
        let failed = Facts {
            agent_version: "old",
            reported: "failed",
            reported_reason: "digest",
            ..good
        };
        assert_eq!(judge(&failed), Verdict::Failed("digest".to_owned()));
        // rolled back to what it was, although the version is the one of the rollout
        assert!(matches!(
            judge(&Facts {
                reported: "failed",
                ..good
            }),
            Verdict::Failed(_)
        ));
        assert!(matches!(
            judge(&Facts {
                removed: true,
                ..good
            }),
            Verdict::Skipped(_)
        ));
    }
}
