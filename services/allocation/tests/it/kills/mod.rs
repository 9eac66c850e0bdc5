//! The agent, or the service, is killed before and after every effect of every kind of work; each time the work ends as
//! it should, and nothing is left over (P5). The cases are made from the step tables.
//!
//! A kill is as hard as a crash: the step stands still, and the runtime of whoever was to die ends with all its tasks.
//! The journal, the ledger, the host and its guests stay.

mod agent;
mod service;
mod service_baremetal;
mod stopped;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use gpuaas_agent::faults::Edge;
use gpuaas_agent::journal::Kind;
use gpuaas_agent::operation::steps_of;
use gpuaas_allocation::config::Config;
use gpuaas_allocation::domain::names::vm_name;
use gpuaas_allocation::workflow::edges::Edges;
use gpuaas_allocation::workflow::failure::StepError;
use gpuaas_allocation::workflow::kill::Point;
use gpuaas_allocation::{reconcile, step_tables};
use gpuaas_placement::model::SlotStatus;
use gpuaas_placement::{audit, slots};
use gpuaas_proto::gpuaas::agent::v1::FailureClass;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::expect::assert_released;
use crate::host::Kill;
use crate::runners::Runner;
use crate::world::World;

/// Longest wait for a kill.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Who dies where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Death {
    /// The agent, at an edge of a step of an operation.
    Agent(Kill),
    /// The service, at an edge of a step of a workflow.
    Service(&'static str, &'static str, Point),
    /// The service, while the agent stands still at an edge of a step, for longer than its lease.
    Stopped(Kill),
}

/// Both edges of every step of an operation.
fn of_agent(kind: Kind) -> Vec<Death> {
    let steps = steps_of(kind).iter();
    agent_at(kind, steps.map(|step| step.name.to_owned()))
}

/// Both edges of the undo of every step that has one, in the order of a failure.
fn of_agent_undoing(kind: Kind) -> Vec<Death> {
    let steps = steps_of(kind).iter().rev();
    let undone = steps.filter(|step| step.undo.is_some());
    agent_at(kind, undone.map(|step| format!("undo_{}", step.name)))
}

fn agent_at(kind: Kind, steps: impl Iterator<Item = String>) -> Vec<Death> {
    let kind = kind.as_str();
    let death = |step: String, edge| Death::Agent(Kill { kind, step, edge });
    steps
        .flat_map(|step| [Edge::Before, Edge::After].map(|edge| death(step.clone(), edge)))
        .collect()
}

/// Both edges of every forward step of a workflow, or of every step after a failure.
fn of_service(kind: &'static str, undoing: bool) -> Vec<Death> {
    let steps = crate::expect::step_names(kind, undoing).into_iter();
    steps
        .flat_map(|step| [Point::Before, Point::After].map(|at| Death::Service(kind, step, at)))
        .collect()
}

/// Stands at the edges of the service's steps, and kills it there.
#[derive(Clone, Default)]
struct Executioner(Arc<Mutex<Order>>);

#[derive(Default)]
struct Order {
    death: Option<Death>,
    hit: bool,
}

impl Executioner {
    fn order<T>(&self, change: impl FnOnce(&mut Order) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Edges for Executioner {
    async fn pass(&self, kind: &str, step: &str, point: Point) -> Result<(), StepError> {
        let dies = self.order(|order| {
            let here = matches!(&order.death, Some(Death::Service(of, at, edge))
                if (*of, *at, *edge) == (kind, step, point));
            if here {
                order.death = None;
                order.hit = true;
            }
            here
        });
        if dies {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

/// What a service calls itself in the leases of its work.
fn owner_name(number: u32) -> String {
    format!("service-{number}")
}

/// Lives of allocations in one world, one after the other.
pub struct Lives<'a> {
    world: &'a World,
    config: Config,
    executioner: Executioner,
    runner: Option<Runner>,
    /// Number of the service that lives.
    living: Arc<AtomicU32>,
    count: u32,
    _hurried: tokio_util::task::AbortOnDropHandle<()>,
}

impl<'a> Lives<'a> {
    pub async fn in_world(world: &'a World, config: Config) -> Self {
        let (owner, living) = (world.owner.clone(), Arc::new(AtomicU32::new(0)));
        let alive = Arc::clone(&living);
        // only time is left out here: nobody waits before trying again, and the leases of the dead run out at once
        let hurried = tokio::spawn(async move {
            loop {
                sqlx::query(
                    "UPDATE placement.workflows
                        SET due_at = least(due_at, clock_timestamp()),
                            lease_expires_at = CASE WHEN lease_owner = $1 THEN lease_expires_at END
                      WHERE state = 'running'
                        AND (due_at > clock_timestamp() OR (lease_expires_at IS NOT NULL AND lease_owner <> $1))",
                )
                .bind(owner_name(alive.load(Ordering::SeqCst)))
                .execute(&owner)
                .await
                .expect("nobody waits");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let mut lives = Self {
            world,
            config: Config {
                poll_seconds: 0.02,
                lease_seconds: 60.0,
                ..config
            },
            executioner: Executioner::default(),
            runner: None,
            living,
            count: 0,
            _hurried: tokio_util::task::AbortOnDropHandle::new(hurried),
        };
        lives.new_runner().await;
        lives
    }

    async fn new_runner(&mut self) {
        let name = owner_name(self.living.fetch_add(1, Ordering::SeqCst) + 1);
        let (config, edges) = (self.config.clone(), Arc::new(self.executioner.clone()));
        self.runner = Some(self.world.own_runner_at(&name, config, edges).await);
    }

    /// Does something, through a death that it leads to.
    async fn through<T>(&mut self, death: Option<Death>, act: impl Future<Output = T>) -> T {
        match &death {
            Some(Death::Agent(kill)) => {
                self.world
                    .host
                    .script(|script| script.kill = Some(kill.clone()));
            }
            Some(Death::Stopped(at)) => {
                self.world
                    .host
                    .script(|script| script.stop = Some(at.clone()));
            }
            Some(of_service) => self
                .executioner
                .order(|order| order.death = Some(of_service.clone())),
            None => {}
        }
        let answer = act.await;
        match death {
            Some(Death::Agent(kill)) => self.agent_dies(&kill).await,
            Some(Death::Stopped(at)) => self.agent_stands_still(&at).await,
            Some(of_service) => self.service_dies(&of_service).await,
            None => {}
        }
        answer
    }

    /// Waits until the agent stands where it is to die, ends it there, and starts another.
    async fn agent_dies(&self, kill: &Kill) {
        self.world.host.until_killed(&format!("{kill:?}")).await;
        self.world.host_up().await;
    }

    /// Waits until the service stands where it is to die, ends it there, and starts another.
    async fn service_dies(&mut self, death: &Death) {
        let stands = async {
            while !self.executioner.order(|order| order.hit) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, stands)
            .await
            .unwrap_or_else(|_| panic!("never at {death:?}"));
        self.runner.take().expect("a runner").kill();
        self.executioner.order(|order| order.hit = false);
        self.new_runner().await;
    }

    /// Launches an allocation.
    async fn launch(&mut self, death: Option<Death>) -> Uuid {
        self.count += 1;
        let name = format!("life-{}", self.count);
        let world = self.world;
        self.through(death, Box::pin(world.reserve(&name))).await
    }

    /// Launches an allocation and waits until somebody can log in.
    async fn active(&mut self, death: Option<Death>) -> Uuid {
        let context = format!("{death:?}");
        let id = self.launch(death).await;
        self.world.until_state(id, "active").await;
        self.world.until_idle(id).await;
        self.assert_up(id, &context).await;
        id
    }

    /// Launches an allocation whose guest nobody can log in to, and waits until it has failed.
    async fn failed(&mut self, death: Option<Death>) -> Uuid {
        self.world.host.script(|script| {
            let (reason, class) = (ErrorReason::GuestNoLogin, FailureClass::Guest);
            script.fail = Some(("provision", "wait_login", reason, class));
        });
        let id = self.launch(death).await;
        self.world.until_state(id, "failed").await;
        self.world.until_idle(id).await;
        self.world.host.script(|script| script.fail = None);
        self.world.host_is_clean(true, "failed").await;
        id
    }

    /// Releases an allocation and waits until nothing of it is left.
    async fn released(&mut self, id: Uuid, death: Option<Death>) {
        let (world, context) = (self.world, format!("{death:?}"));
        self.through(death, world.release(id)).await;
        world.until_state(id, "released").await;
        world.until_idle(id).await;
        assert_released(world, id, &context).await;
        self.assert_nothing_left(id, &context).await;
    }

    /// Repairs the slot that an allocation left blocked, and waits until nothing is left.
    async fn repaired(&mut self, id: Uuid, death: Option<Death>) {
        let (world, context) = (self.world, format!("{death:?}"));
        let slot = world.slot_of(id).await;
        assert_eq!(slot.status, SlotStatus::CleanupBlocked, "{context}");
        self.through(death, world.repair(slot.id)).await;
        world.until_idle(slot.id).await;
        let slot = world.slot_of(id).await;
        let why = &slot.health_detail;
        assert_eq!(slot.status, SlotStatus::Available, "{context}: {why}");
        assert_eq!(slot.clean_generation, Some(slot.generation), "{context}");
        let evidence = slot.clean_evidence.as_deref();
        assert_eq!(evidence, Some("wiped: blkdiscard"), "{context}");
        assert!(world.host.state().await.dirty.is_empty(), "{context}");
        world.host_is_clean(false, &context).await;
        self.assert_nothing_left(id, &context).await;
    }

    /// Has the first slot repaired, whose function another driver took.
    async fn rebound(&mut self, death: Death) {
        let (world, context) = (self.world, format!("{death:?}"));
        let slot_id = world.slot_ids[0];
        world.host.bind_function(0, "mlx5_core");
        world.report_devices().await;
        self.through(Some(death), world.repair(slot_id)).await;
        world.until_idle(slot_id).await;
        let mut conn = world.pool.acquire().await.expect("a connection");
        let slot = slots::get(&mut conn, world.node_id, slot_id).await;
        let slot = slot.expect("the slot");
        assert_eq!(slot.status, SlotStatus::Available, "{context}: {slot:?}");
        assert_eq!(slot.clean_generation, Some(slot.generation), "{context}");
        assert_eq!(world.host.function_driver(0), "vfio-pci", "{context}");
        world.host_is_clean(false, &context).await;
        self.assert_nothing_left(slot_id, &context).await;
    }

    /// The VM runs, can be logged in to, and the host has what it needs and no more.
    async fn assert_up(&self, id: Uuid, context: &str) {
        let world = self.world;
        let allocation = world.allocation(id).await;
        assert!(allocation.access.expect("access").0.ssh_ready, "{context}");
        assert_eq!(
            world.slot_of(id).await.status,
            SlotStatus::Active,
            "{context}"
        );
        assert_eq!(world.periods(id).await, (1, 1), "{context}");
        let state = world.host.state().await;
        let own = BTreeSet::from([vm_name(id)]);
        assert_eq!(state.domains, own, "{context}");
        assert_eq!(state.reservations, own, "{context}");
        assert!(
            state.off.is_empty() && state.leases.is_empty(),
            "{context}: {state:?}"
        );
        let holders: Vec<_> = state.holds.values().cloned().collect();
        assert_eq!(holders, [id.to_string()], "{context}");
        assert_eq!(
            allocation.boot_id,
            world.host.boot_id(&vm_name(id)),
            "{context}"
        );
        assert_eq!(
            world.host.partitions().len(),
            usize::from(world.host.module(0).is_some()),
            "{context}"
        );
        let requested = state.count_of("provision", id);
        assert_eq!(
            requested, 1,
            "{context}: one operation however often it was asked for"
        );
        self.assert_sound(context).await;
    }

    async fn assert_nothing_left(&self, id: Uuid, context: &str) {
        let world = self.world;
        world.nothing_runs(id, context).await;
        assert!(world.host.partitions().is_empty(), "{context}");
        let deps = world.deps(world.pool.clone(), World::config());
        let found = reconcile::node(&deps, world.node_id).await;
        let found = found.expect("compared");
        assert!(found.is_empty(), "{context}: {found:?}");
        self.assert_sound(context).await;
    }

    /// The ledger breaks none of its rules.
    async fn assert_sound(&self, context: &str) {
        let mut conn = self.world.scheduler.acquire().await.expect("a connection");
        let report = audit::ledger(&mut conn).await.expect("an audit");
        let broken: Vec<_> = report.broken().collect();
        assert!(broken.is_empty(), "{context}: {broken:#?}");
    }

    async fn end(mut self) {
        let runner = self.runner.take().expect("a runner");
        runner.stop().await;
    }
}

/// The test in which an agent dies in each kind of operation; a new kind needs one.
#[test]
fn p5_every_kind_of_work_has_its_deaths() {
    let _killed_in = |kind: Kind| match kind {
        Kind::Provision | Kind::Release => "agent::p5_agent_killed_in_provision_and_release",
        Kind::Stop | Kind::Start | Kind::Reboot | Kind::Rescue => "agent::p5_agent_killed_in_power",
        Kind::CleanUp | Kind::RepairSlot => "agent::p5_agent_killed_in_undo_clean_up_and_repair",
    };
    let kinds: Vec<&str> = step_tables().iter().map(|table| table.kind).collect();
    let killed_in = [
        service::KINDS.as_slice(),
        service_baremetal::KINDS.as_slice(),
    ]
    .concat();
    for kind in kinds {
        assert!(killed_in.contains(&kind), "nobody dies in {kind}");
    }
}
