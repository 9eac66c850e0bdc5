//! One ledger beside its model: a step is foretold, made and compared.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpuaas_placement::capacity::{Capacity, Ledger};
use gpuaas_placement::catalog::{self, Sku};
use gpuaas_placement::model::Shape;
use gpuaas_placement::reserve::Request;
use gpuaas_placement::{Error, audit, quota, sequencer};
use jiff_sqlx::ToSqlx as _;
use uuid::Uuid;

use super::calls::{Ask, Call, Place, aim};
use super::doing::Doing;
use super::draw::{NODES, Step};
use super::fleet::{Fleet, GPUS, Launched, MODEL_POLICY, NODE_SKU, Requested, SKU};
use super::perform::{Answer, Pools, perform, refusal};
use super::predict::{Foretold, No, predict};
use super::reserving;
use super::serving::{Way, walk};
use super::view::View;
use super::{AUDIT_EVERY, COPY_EVERY};
use crate::capacity::reported;
use crate::wire::{Cut, Wire};
use crate::world::{World, gpu_counts, h200_sku, price};

/// One ledger with its model.
pub struct Run {
    pub world: World,
    wire: Wire,
    wired: (Ledger, sqlx::PgPool),
    pub fleet: Fleet,
    pub view: View,
    names: usize,
    pub done: Done,
    pub doing: Doing,
}

/// What runs did.
#[derive(Debug, Default)]
pub struct Done {
    pub calls: usize,
    pub crashes: usize,
    /// The longest that a call took with all that was looked at before and after it.
    pub longest: Duration,
    /// How often so many GPUs were billed to their end; 0: a bare-metal node.
    pub lived: BTreeMap<u32, usize>,
    /// How often a batch was placed at once, a request joined the queue, and one was served, ended or passed over.
    pub seen: BTreeMap<&'static str, usize>,
}

impl Done {
    fn note(&mut self, what: &'static str, times: usize) {
        *self.seen.entry(what).or_default() += times;
    }

    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.crashes += other.crashes;
        self.longest = self.longest.max(other.longest);
        for (size, count) in &other.lived {
            *self.lived.entry(*size).or_default() += count;
        }
        for (what, count) in &other.seen {
            self.note(what, *count);
        }
    }
}

pub type Outcome<T = ()> = Result<T, String>;

impl Run {
    pub async fn new() -> Self {
        let world = World::new().await;
        let mut conn = world.scheduler.acquire().await.expect("connection");
        let sku = Sku {
            code: NODE_SKU.into(),
            capacity_shape: Shape::Baremetal,
            allowed_gpu_counts: gpu_counts(&[GPUS]),
            ..h200_sku()
        };
        catalog::put_sku(&mut conn, &sku).await.expect("sku");
        let now = jiff::Timestamp::now().to_sqlx();
        catalog::put_price(&mut conn, NODE_SKU, &price(), now)
            .await
            .expect("price");
        drop(conn);
        let wire = Wire::new(&world.db).await;
        let wired = (
            Ledger::new(wire.pool(&world.db, "gpuaas_scheduler")),
            wire.pool(&world.db, "gpuaas_allocation"),
        );
        let fleet = Fleet::new();
        for node in 0..NODES {
            world.node(fleet.spec(node, false)).await;
        }
        let view = View::load(&world.owner).await;
        Self {
            world,
            wire,
            wired,
            fleet,
            view,
            names: 0,
            done: Done::default(),
            doing: Doing::default(),
        }
    }

    /// Statements of the last call that was to be cut and was not.
    pub fn statements(&self) -> u32 {
        self.wire.passed()
    }

    async fn step(&mut self, step: &Step) -> Outcome {
        match aim(&step.draw, &self.view) {
            Some(call) => self.call(&call, step.crash).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Makes a call as foretold; true when its wire was cut on the way.
    pub async fn call(&mut self, call: &Call, crash: Option<(u32, Cut)>) -> Outcome<bool> {
        self.done.calls += 1;
        self.doing
            .begin(format!("call {}: {call:?}, {crash:?}", self.done.calls));
        self.foresee(call);
        let requested = self.requested(call);
        let foretold = predict(call, &self.view, &self.fleet);
        let mut cut_off = false;
        let outcome = match crash {
            None => self.make(call, requested.as_ref(), false).await,
            Some((left, cut)) => {
                self.wire.order(left, cut);
                let outcome = self.make(call, requested.as_ref(), true).await;
                cut_off = self.wire.ended().await;
                // what is left for the next time is no error of these; a pool that lost an idle connection opens another
                let leaves_some = matches!(call, Call::Serve | Call::Reconcile | Call::Hold(_));
                if cut_off && (outcome.is_err() || leaves_some) {
                    self.done.crashes += 1;
                    return self
                        .crashed(call, requested, &foretold, outcome)
                        .await
                        .map(|()| true)
                        .map_err(|reason| {
                            format!("{call:?} cut {cut:?} after {left} statements: {reason}")
                        });
                }
                outcome
            }
        };
        let after = View::load(&self.world.owner).await;
        self.learn(call).await;
        self.compare(call, requested, &foretold, outcome, after)
            .map(|()| cut_off)
            .map_err(|reason| format!("{call:?}: {reason}"))
    }

    async fn make(
        &self,
        call: &Call,
        requested: Option<&Requested>,
        over_wire: bool,
    ) -> Result<Answer, Error> {
        let (scheduler, allocation) = if over_wire {
            (&self.wired.0, &self.wired.1)
        } else {
            (&self.world.scheduler, &self.world.allocation)
        };
        let pools = Pools {
            scheduler,
            allocation,
        };
        perform(
            call,
            requested,
            &self.world,
            &pools,
            &self.fleet,
            &self.view,
        )
        .await
    }

    /// What the host and the operator want is known before the ledger is told.
    fn foresee(&mut self, call: &Call) {
        match *call {
            Call::Gate {
                node,
                schedulable,
                healthy,
            } => {
                let node = &mut self.fleet.nodes[node];
                (node.schedulable, node.healthy) = (schedulable, healthy);
            }
            Call::Quota { project, max } => self.fleet.quotas[project] = max.unsigned_abs(),
            Call::Priority { project, class } => self.fleet.priorities[project] = class,
            _ => {}
        }
    }

    fn requested(&mut self, call: &Call) -> Option<Requested> {
        match call {
            Call::Ask(ask) => {
                let requests = ask.items.iter().enumerate().map(|(at, item)| {
                    self.names += 1;
                    let unique = format!("a-{}", self.names);
                    let taken = ask.name_of.filter(|_| at == 0);
                    let taken = taken.map(|id| self.fleet.launched[&id].name.clone());
                    let mut request = Request {
                        project_id: self.fleet.projects[ask.project],
                        idempotency_key: unique.clone(),
                        name: taken.unwrap_or(unique),
                        sku: if item.bare_metal { NODE_SKU } else { SKU }.into(),
                        ..self.world.request(item.count)
                    };
                    let place = &mut request.constraints;
                    match &ask.place {
                        Place::Anywhere => {}
                        Place::With(id) => place.affinity = Some(*id),
                        Place::Apart(ids) => place.anti_affinity.clone_from(ids),
                        Place::ApartFromAll => {
                            // all requests of a world have this label
                            place.anti_affinity_label = Some(("team".into(), "a".into()));
                        }
                    }
                    request
                });
                Some(Requested {
                    requests: requests.collect(),
                    wait: ask.wait,
                    made: Vec::new(),
                })
            }
            Call::Again { of, other_body } => {
                let requested = &self.fleet.requested[of];
                let mut requests = requested.requests.clone();
                if *other_body {
                    requests[0].request_hash = vec![9; 32];
                }
                Some(Requested {
                    requests,
                    wait: requested.wait,
                    made: requested.made.clone(),
                })
            }
            _ => None,
        }
    }

    /// After a call whose wire was not cut: exactly what was foretold.
    fn compare(
        &mut self,
        call: &Call,
        requested: Option<Requested>,
        foretold: &Result<Foretold, No>,
        outcome: Result<Answer, Error>,
        after: View,
    ) -> Outcome {
        match (call, foretold, outcome) {
            (Call::Ask(ask), Ok(Foretold::Ends(_)), Ok(Answer::Made(made, false))) => {
                self.made(ask, requested.ok_or("not asked")?, made, &after)?;
            }
            (_, Ok(Foretold::Ends(ends)), Err(error))
                if refusal(&error)
                    .is_some_and(|no| ends.contains(&super::requests::End::No(no))) =>
            {
                same(&self.view, &after)?;
            }
            (Call::Again { .. }, Ok(Foretold::Ledger(view)), Ok(Answer::Made(made, true))) => {
                let first = requested.ok_or("not asked")?.made;
                if made != first {
                    return Err(format!("a repetition led to {made:?}, not {first:?}"));
                }
                same(view, &after)?;
            }
            (_, Ok(Foretold::Pass), Ok(Answer::Pass(pass))) => {
                let expected = walk(&self.view, &after, &self.fleet, Way::Whole)?;
                if pass != expected {
                    return Err(format!("told {pass:?}, did {expected:?}"));
                }
                self.done.note("served", pass.served.len());
                let bare_metal = |id: &&Uuid| self.fleet.launched[*id].bare_metal;
                let nodes_served = pass.served.iter().filter(bare_metal).count();
                self.done.note("bare-metal nodes served", nodes_served);
                self.done.note("ended in the queue", pass.ended.len());
            }
            (Call::Hold(hold), Ok(Foretold::Hold), Ok(Answer::Held(id, false))) => {
                same(
                    &reserving::made(hold, id, &self.view, &after, &self.fleet, true)?,
                    &after,
                )?;
                self.done.note("reservations", 1);
            }
            (Call::Hold(hold), Ok(Foretold::Hold), Err(error))
                if refusal(&error) == Some(No::Capacity)
                    && reserving::may_be_refused(hold, &self.view, &self.fleet) =>
            {
                same(&self.view, &after)?;
            }
            (Call::Reconcile, Ok(Foretold::Reconciled), Ok(Answer::Nothing)) => {
                same(
                    &reserving::reconciled(&self.view, &after, &self.fleet, true)?,
                    &after,
                )?;
                self.done
                    .note("reconciled", usize::from(self.view != after));
            }
            (_, Ok(Foretold::Ledger(view)), Ok(Answer::Nothing)) => same(view, &after)?,
            (_, Err(no), Err(error)) if refusal(&error) == Some(*no) => same(&self.view, &after)?,
            (_, foretold, outcome) => {
                return Err(format!("foretold {foretold:?}, but {outcome:?}"));
            }
        }
        self.view = after;
        Ok(())
    }

    /// New allocations took what they may have, or wait, and nothing else changed.
    fn made(&mut self, ask: &Ask, requested: Requested, made: Vec<Uuid>, after: &View) -> Outcome {
        for ((id, item), request) in made.iter().zip(&ask.items).zip(&requested.requests) {
            let launched = Launched {
                project: ask.project,
                name: request.name.clone(),
                gpus: item.count,
                bare_metal: item.bare_metal,
                place: ask.place.clone(),
            };
            self.fleet.launched.insert(*id, launched);
        }
        let foretold = ask.made(&made, &self.view, &self.fleet, after)?;
        same(&foretold, after)?;
        match after.queue.len() > self.view.queue.len() {
            true if made.len() > 1 => self.done.note("batches that joined", 1),
            true => self.done.note("joined", 1),
            false if made.len() > 1 => self.done.note("batches", 1),
            false => {}
        }
        let requested = Arc::new(Requested {
            made: made.clone(),
            ..requested
        });
        for id in made {
            self.fleet.requested.insert(id, requested.clone());
        }
        Ok(())
    }

    /// After a crash: as before or as foretold. Then the call is made again as a client would, and has one effect.
    async fn crashed(
        &mut self,
        call: &Call,
        requested: Option<Requested>,
        foretold: &Result<Foretold, No>,
        outcome: Result<Answer, Error>,
    ) -> Outcome {
        let after = View::load(&self.world.owner).await;
        self.audit().await?;
        match (call, foretold) {
            (Call::Serve, _) => {
                // part of the queue may have been served; the rest is, by the next pass
                let way = match outcome {
                    Ok(Answer::Pass(pass)) if !pass.busy => Way::Cut,
                    _ => Way::BrokenOff,
                };
                walk(&self.view, &after, &self.fleet, way)?;
                self.view = after;
            }
            (Call::Ask(ask), Ok(Foretold::Ends(_)))
                if after.allocations.len() > self.view.allocations.len() =>
            {
                // the client never saw an answer and asks again
                let requested = requested.ok_or("not asked")?;
                let made = match self.make(call, Some(&requested), false).await {
                    Ok(Answer::Made(made, true)) => made,
                    other => return Err(format!("asked again: {other:?}")),
                };
                self.made(ask, requested, made, &after)?;
                self.view = View::load(&self.world.owner).await;
                return same(&after, &self.view);
            }
            (Call::Hold(hold), Ok(Foretold::Hold)) if after != self.view => {
                let id = reserving::new_one(&self.view, &after).ok_or("no reservation")?;
                same(
                    &reserving::made(hold, id, &self.view, &after, &self.fleet, false)?,
                    &after,
                )?;
                match self.make(call, None, false).await {
                    Ok(Answer::Held(again, true)) if again == id => {}
                    other => return Err(format!("asked again: {other:?}")),
                }
                self.view = View::load(&self.world.owner).await;
                return same(&after, &self.view);
            }
            (Call::Reconcile, _) => {
                same(
                    &reserving::reconciled(&self.view, &after, &self.fleet, false)?,
                    &after,
                )?;
                self.view = after;
            }
            _ if after == self.view => {}
            (_, Ok(Foretold::Ledger(view))) if **view == after => {
                self.view = after;
                self.learn(call).await;
                return Ok(());
            }
            (_, foretold) => {
                return Err(format!(
                    "neither as before nor as foretold ({outcome:?}): {} or {foretold:?}",
                    self.view.difference(&after)
                ));
            }
        }
        // nothing happened: now it must go through as foretold
        let outcome = self.make(call, requested.as_ref(), false).await;
        let after = View::load(&self.world.owner).await;
        let done = self.compare(call, requested, foretold, outcome, after);
        self.learn(call).await;
        done.map_err(|reason| format!("made again: {reason}"))
    }

    /// Which instance a node has after a reinstall.
    async fn learn(&mut self, call: &Call) {
        if let Call::Reinstall(node) = call {
            let node = &mut self.fleet.nodes[*node];
            node.instance = sqlx::query_scalar("SELECT instance_id FROM nodes WHERE id = $1")
                .bind(node.id)
                .fetch_one(&self.world.owner)
                .await
                .expect("a node");
        }
    }

    async fn audit(&self) -> Outcome {
        let mut conn = self.world.scheduler.acquire().await.expect("connection");
        let report = audit::ledger(&mut conn).await.expect("audit");
        let broken: Vec<_> = report.broken().collect();
        if broken.is_empty() {
            Ok(())
        } else {
            Err(format!("broken: {broken:#?}"))
        }
    }

    /// What was kept in memory all the time is what is read now.
    async fn copy(&self) -> Outcome {
        let kept = reported(&self.world, &self.world.capacity).await;
        let read = reported(&self.world, &Capacity::default()).await;
        if kept == read {
            Ok(())
        } else {
            Err(format!("kept in memory: {kept:#?}\nread: {read:#?}"))
        }
    }

    /// What a project is said to hold is what it holds.
    async fn quotas(&self) -> Outcome {
        let mut conn = self.world.scheduler.acquire().await.expect("connection");
        for (number, project) in self.fleet.projects.iter().enumerate() {
            for (sku, bare_metal) in [(SKU, false), (NODE_SKU, true)] {
                let read = quota::read(&mut conn, *project, sku, MODEL_POLICY).await;
                let used = read.expect("quota").used_gpus;
                let expected = self.fleet.used(&self.view, number, bare_metal);
                if used != i64::from(expected) {
                    return Err(format!(
                        "project {number} holds {expected} of {sku}, told {used}"
                    ));
                }
            }
        }
        Ok(())
    }

    pub async fn all(&mut self, steps: &[Step]) -> Outcome {
        for (number, step) in steps.iter().enumerate() {
            let began = Instant::now();
            let place = |reason| format!("step {number}: {reason}");
            self.step(step).await.map_err(place)?;
            self.done.longest = self.done.longest.max(began.elapsed());
            let place = |reason| format!("after step {number}, {step:?}: {reason}");
            if number % AUDIT_EVERY == 0 {
                self.audit().await.map_err(place)?;
            }
            if number % COPY_EVERY == 0 {
                self.copy().await.map_err(place)?;
                self.quotas().await.map_err(place)?;
            }
        }
        sequencer::run_once(&self.world.allocation)
            .await
            .expect("sequenced");
        for (id, one) in &self.view.allocations {
            if one.periods == (1, 0) {
                let launched = &self.fleet.launched[id];
                let size = if launched.bare_metal {
                    0
                } else {
                    launched.gpus
                };
                *self.done.lived.entry(size).or_default() += 1;
            }
        }
        self.audit().await
    }
}

fn same(foretold: &View, after: &View) -> Outcome {
    if foretold == after {
        Ok(())
    } else {
        Err(foretold.difference(after))
    }
}
