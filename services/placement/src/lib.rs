//! The placement ledger: the only code that writes schema `placement`.
//!
//! Two services share it, scheduler and allocation, because claims, slot states, allocation state and events
//! must commit together. The database itself refuses to allocate a GPU twice (P1), to allocate a slot without clean
//! evidence (P2) and a transition that is not in the tables; this library gives the legal changes their names.
//!
//! | module | what it does |
//! |---|---|
//! | [`reserve`] | one transaction from request to claims; a refusal stores nothing |
//! | [`reservations`] | capacity reserved for one project for a time window |
//! | [`queue`] | queued requests: their order, and the backfill reservations of the first |
//! | [`decision`] | the pure placement decision with its reasons: a crate of its own |
//! | [`availability`] | what fits now, and the unschedulable reasons |
//! | [`capacity`] | the nodes in memory, for availability, explanations and reports |
//! | [`reports`] | plans for operators: to drain nodes, to defragment, to preserve bare-metal nodes |
//! | [`audit`] | the ledger's invariants as queries |
//! | [`allocations`] | load and list, always scoped |
//! | [`claims`] | what an allocation holds, with the immutable snapshot a host call needs |
//! | [`provision`], [`release`], [`repair`], [`power`] | the transitions of the workflows |
//! | [`force_release`], [`lost`] | the way out for what is on a lost host, and the condition that tells of one |
//! | [`auto_release`] | the end at a time, and the protection from release |
//! | [`ingress`] | ports of VMs that are reached from outside |
//! | [`user_data`] | user data of launches that are not over |
//! | [`operator_actions`] | what an operator does to an allocation of somebody else |
//! | [`drift`] | what was approved for slots against what their host has now |
//! | [`host_holds`] | slots that nobody has and that their host holds |
//! | [`nodes`], [`slots`], [`catalog`], [`quota`] | intake of nodes, slots, regions, SKUs, prices, quotas |
//! | [`node_placement`] | cordon, drain, maintenance, retirement, and what placement makes of a node |
//! | [`node_health`] | break-fix records, and findings of outside health agents |
//! | [`lifecycle`] | the history of nodes and slots |
//! | [`suspensions`] | projects of which nothing that is queued starts |
//! | [`sweep`] | deletes rows past their retention |
//! | [`history`] | the fleet's capacity over time |
//! | [`fleet`] | the fleet record: a row per node, counters, and when what a project has was not healthy |
//! | [`outbox`], [`events`], [`sequencer`] | writing events, reading them, giving them their positions |
//! | [`convert`] | values as proto messages |
//! | [`workflows`], [`timeline`], [`node_tasks`] | durable work, what a user sees, calls to hosts |
//!
//! **Conventions.** A function that takes `&mut PgConnection` runs in the caller's transaction and leaves the
//! commit to it, so that a step record or an idempotency row can join the effect. Locks are taken in the order
//! idempotency key, quota of the project, quota of the SKU, limit on the project's reservations, capacity reservation,
//! node, slots by id, reserved slots, allocation, workflow, outbox. Every transition of a workflow takes its [`Fence`]; when
//! another runner has taken over, it changes nothing and returns [`Error::StaleLease`]. A transition that was made before
//! answers [`Outcome::Unchanged`], so a resumed step may repeat it. Times are `greatest(clock_timestamp(), previous)` under
//! the row lock.
//!
//! Calls of the allocation service, in the order of an allocation's lifecycle (`conn` is inside its transaction):
//!
//! ```text
//! allocations::get(conn, Scope, id) -> Result<Allocation>
//! allocations::list(conn, project_id, include_ended, before: Option<(Timestamp, Uuid)>, limit) -> Result<Vec<Allocation>>   newest first
//! claims::of_allocation(conn, id) -> Result<Vec<Claim>>                  by slot index; the first is the boot slot
//! claims::cell_epoch(conn) -> Result<i64>                                first part of every fencing token
//! nodes::get(conn, node_id) -> Result<Node>                              agent_address, instance_id now
//! slots::get(conn, node_id, slot_id) -> Result<Slot>
//! provision::start(conn, Fence, id) -> Result<Outcome>                   reserved → provisioning
//! provision::activate(conn, Fence, id, Option<&GuestAccess>, boot_id: Option<Uuid>) -> Result<Outcome>  → active, period opened, event
//! provision::fail(conn, Fence, id, &Failure, HostState) -> Result<Outcome>
//!     HostState::Untouched { detail: Value }                             slots back to available, claims released
//!     HostState::Dirty { health_detail: &str }                           slots cleanup_blocked / failed (INC-14)
//! power::begin(conn, Scope, id, Action, forced, traceparent, request_id) -> Result<(Allocation, workflow_id)>
//! power::record_outcome(conn, Fence, id, power, boot_id: Option<Uuid>) -> Result<Outcome>    the power state observed on the host
//! release::begin(conn, Scope, id, traceparent, request_id) -> Result<release::Begun>
//!     Begun { allocation, workflow_id: Option<Uuid> }                    ends running workflows and enqueues the release
//!                                                                        itself; None: it had begun before, or nothing
//!                                                                        had touched the host and it is released already
//! operator_actions::stop(conn, id, reason, traceparent, request_id) -> Result<workflow_id>
//! operator_actions::release(conn, id, reason, traceparent, request_id) -> Result<release::Begun>
//! release::complete(conn, Fence, id, &[SlotEvidence]) -> Result<Outcome> slots available, claims and allocation released
//! release::block(conn, Fence, id, health_detail) -> Result<Outcome>      guest gone, wipe not proven: allocation released,
//!                                                                        slots and claims cleanup_blocked
//! repair::begin(conn, node_id, slot_id, traceparent, request_id) -> Result<repair::Begun>
//!     Begun { slot, workflow_id, allocation_id: Option<Uuid>, started: bool }   enqueues the repair itself
//! repair::complete(conn, Fence, slot_id, &SlotEvidence) -> Result<Outcome>
//! repair::fail(conn, Fence, slot_id, health_detail) -> Result<Outcome>
//! wipes::of_allocation(conn, id, &Selection, Wanted) -> Result<(Vec<Wipe>, next_page_token)>     proven wipes, with what
//!                                                                        their hosts signed
//! wipes::of_slot(conn, slot_id, &Selection, Wanted) -> Result<(Vec<Wipe>, next_page_token)>      newest first
//! events::read(conn, after, limit) -> Result<(Vec<Event>, head)>
//! sequencer::run_once(&PgPool) -> Result<u64>                            positions assigned; wake event readers when > 0
//! ```

pub mod agent_starts;
pub mod allocations;
pub mod approval;
pub mod audit;
pub mod auto_release;
pub mod availability;
pub mod candidates;
pub mod capacity;
pub mod catalog;
pub mod claims;
mod constraints;
pub mod convert;
mod decision_input;
pub mod drift;
mod error;
pub mod events;
pub mod fleet;
pub mod force_release;
pub mod history;
pub mod host_holds;
pub mod ingress;
pub mod lifecycle;
pub mod lock;
pub mod lost;
pub mod model;
pub mod networks;
pub mod node_health;
pub mod node_placement;
pub mod node_tasks;
pub mod nodes;
pub mod operator_actions;
pub mod outbox;
pub mod power;
pub mod provision;
pub mod queue;
pub mod quota;
pub mod release;
pub mod repair;
pub mod reports;
pub mod reservations;
pub mod reserve;
mod reserved_slots;
pub mod sequencer;
pub mod slots;
pub mod suspensions;
pub mod sweep;
pub mod timeline;
pub mod update;
pub mod user_data;
pub mod wipes;
pub mod workflows;

pub use gpuaas_placement_decision as decision;

pub use error::{Error, Reason, Result, of_batch};
pub use model::{Fence, Outcome, Scope};
