//! Host preparation: what makes an installed Ubuntu a slice host, as commands an operator or cloud-init runs (I-64..I-123).
//!
//! Every command observes the host and computes a [`Plan`]: the list of what it would change. A host that is as it must be
//! has an empty plan, so a second run changes nothing. `--dry-run` prints the plan; otherwise it is applied step by step and
//! ends at the first step that fails. What a command refuses is found before anything is changed.
//!
//! None of them makes a slot schedulable: that takes a discovery and an operator's approval (A-127, I-79).
pub mod apply;
pub mod assembly;
pub mod bootstrap;
pub mod command;
pub mod grub;
pub mod host_settings;
pub mod ipoib;
pub mod machine;
pub mod mode;
pub mod network;
pub mod packages;
pub mod plan;
pub mod removal;
pub mod runtime;
pub mod storage;
pub mod systemd;
pub mod tuning;

pub use machine::Machine;
pub use plan::{Action, Plan, Step};
