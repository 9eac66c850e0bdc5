//! One ledger beside its model: a step is foretold, made and compared.
use std::collections::{BTreeMap, BTreeSet};

use gpuaas_placement::capacity::Capacity;
use gpuaas_placement::reserve::{Request, Reserved};
use gpuaas_placement::{Error, audit, stamper};
use uuid::Uuid;

use super::AUDIT_EVERY;
use super::calls::{Call, NODES, Step, aim};
use super::fleet::{Fleet, SKU};
use super::perform::{Pools, perform, refusal};
use super::predict::{No, created, legal, predict};
use super::view::View;
use crate::capacity::told;
use crate::wire::Wire;
use crate::world::World;

/// One ledger with its model.
pub struct Run {
    world: World,
    wire: Wire,
    wired: [sqlx::PgPool; 2],
    fleet: Fleet,
    view: View,
    names: usize,
    pub calls: usize,
    pub crashes: usize,
    /// How often an allocation of so many GPUs was billed to its end.
    pub lived: BTreeMap<u32, usize>,
}

pub type Outcome<T = ()> = Result<T, String>;

impl Run {
    pub async fn new() -> Self {
        let world = World::new().await;
        let wire = Wire::new(&world.db).await;
        let wired =
            ["gpuaas_scheduler", "gpuaas_allocation"].map(|role| wire.pool(&world.db, role));
        let fleet = Fleet::new();
        for node in 0..NODES {
            world.node(fleet.spec(node)).await;
        }
        let view = View::load(&world.owner).await;
        Self {
            world,
            wire,
            wired,
            fleet,
            view,
            names: 0,
            calls: 0,
            crashes: 0,
            lived: BTreeMap::new(),
        }
    }

    async fn step(&mut self, step: &Step) -> Outcome {
        let Some(call) = aim(&step.draw, &self.view) else {
            return Ok(());
        };
        self.calls += 1;
        self.foresee(&call);
        let request = self.request(&call);
        let foretold = predict(&call, &self.view, &self.fleet);
        let outcome = match step.crash {
            None => self.make(&call, request.as_ref(), false).await,
            Some((left, cut)) => {
                self.wire.order(left, cut);
                let outcome = self.make(&call, request.as_ref(), true).await;
                if self.wire.settled().await && outcome.is_err() {
                    self.crashes += 1;
                    return self
                        .crashed(&call, request.as_ref(), &foretold, outcome)
                        .await
                        .map_err(|reason| {
                            format!("{call:?} cut {cut:?} after {left} statements: {reason}")
                        });
                }
                outcome
            }
        };
        let after = View::load(&self.world.owner).await;
        self.learn(&call).await;
        self.compare(&call, request, &foretold, outcome, after)
            .map_err(|reason| format!("{call:?}: {reason}"))
    }

    async fn make(
        &self,
        call: &Call,
        request: Option<&Request>,
        over_wire: bool,
    ) -> Result<Option<Reserved>, Error> {
        let pools = if over_wire {
            Pools {
                scheduler: &self.wired[0],
                allocation: &self.wired[1],
            }
        } else {
            Pools {
                scheduler: &self.world.scheduler,
                allocation: &self.world.allocation,
            }
        };
        perform(call, request, &self.world, &pools, &self.fleet, &self.view).await
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
            Call::Drain { node, on } => self.fleet.nodes[node].draining = on,
            Call::Quota { project, max } => self.fleet.quotas[project] = max.unsigned_abs(),
            _ => {}
        }
    }

    fn request(&mut self, call: &Call) -> Option<Request> {
        match call {
            Call::Create {
                project,
                count,
                name_of,
            } => {
                self.names += 1;
                let unique = format!("a-{}", self.names);
                let name =
                    name_of.map_or(unique.clone(), |id| self.fleet.requests[&id].name.clone());
                Some(Request {
                    project_id: self.fleet.projects[*project],
                    idempotency_key: unique,
                    name,
                    sku: SKU.into(),
                    ..self.world.request(*count)
                })
            }
            Call::Again { of, other_body } => {
                let mut request = self.fleet.requests[of].clone();
                if *other_body {
                    request.request_hash = vec![9; 32];
                }
                Some(request)
            }
            _ => None,
        }
    }

    /// After a call whose wire was not cut: exactly what was foretold.
    fn compare(
        &mut self,
        call: &Call,
        request: Option<Request>,
        foretold: &Result<Option<View>, No>,
        outcome: Result<Option<Reserved>, Error>,
        after: View,
    ) -> Outcome {
        match (foretold, outcome) {
            (Ok(None), Ok(Some(reserved))) if !reserved.replayed => {
                let request = request.ok_or("no request")?;
                self.created(call, reserved.allocation_id, &request, &after)?;
            }
            (Ok(Some(view)), Ok(reserved)) => {
                if let (Call::Again { of, .. }, Some(reserved)) = (call, reserved)
                    && !(reserved.replayed && reserved.allocation_id == *of)
                {
                    return Err(format!("a repetition led to {reserved:?}"));
                }
                same(view, &after)?;
            }
            (Err(no), Err(error)) if refusal(&error) == Some(*no) => same(&self.view, &after)?,
            (foretold, outcome) => {
                return Err(format!("foretold {foretold:?}, but {outcome:?}"));
            }
        }
        self.view = after;
        Ok(())
    }

    /// A new allocation took slots that may be sold together, and nothing else changed.
    fn created(&mut self, call: &Call, id: Uuid, request: &Request, after: &View) -> Outcome {
        let Call::Create { project, count, .. } = *call else {
            return Err("not a create".into());
        };
        let claims = &after
            .allocations
            .get(&id)
            .ok_or("no such allocation")?
            .claims;
        let mut taken: Vec<i32> = claims.keys().map(|slot| after.slots[slot].index).collect();
        taken.sort_unstable();
        let on: BTreeSet<Uuid> = claims.keys().map(|slot| after.slots[slot].node).collect();
        let fits = (0..NODES).any(|node| {
            on.len() == 1
                && on.contains(&self.fleet.nodes[node].id)
                && legal(&self.view, &self.fleet, node, count).contains(&taken)
        });
        if !fits {
            return Err(format!("slots {taken:?} on {on:?} were not for sale"));
        }
        same(&created(&self.view, id, claims.keys().copied()), after)?;
        self.fleet.sold.insert(id, (project, count));
        self.fleet.requests.insert(id, request.clone());
        Ok(())
    }

    /// After a crash: as before or as foretold. Then the call is made again as a client would, and has one effect.
    async fn crashed(
        &mut self,
        call: &Call,
        request: Option<&Request>,
        foretold: &Result<Option<View>, No>,
        outcome: Result<Option<Reserved>, Error>,
    ) -> Outcome {
        let after = View::load(&self.world.owner).await;
        self.audit().await?;
        let fresh: Vec<Uuid> = after
            .allocations
            .keys()
            .filter(|id| !self.view.allocations.contains_key(id))
            .copied()
            .collect();
        match (call, foretold, fresh.as_slice()) {
            (Call::Create { .. }, Ok(_), [id]) => {
                let request = request.ok_or("no request")?;
                self.created(call, *id, request, &after)?;
                self.view = after;
                // the client never saw an answer and asks again
                let again = self.make(call, Some(request), false).await;
                match again {
                    Ok(Some(reserved)) if reserved.replayed && reserved.allocation_id == *id => {}
                    other => return Err(format!("asked again: {other:?}")),
                }
                let after = View::load(&self.world.owner).await;
                return same(&self.view, &after);
            }
            _ if after == self.view => {}
            (_, Ok(Some(view)), _) if *view == after => {
                self.view = after;
                self.learn(call).await;
                return Ok(());
            }
            (_, foretold, _) => {
                return Err(format!(
                    "neither as before nor as foretold ({outcome:?}): {} or {foretold:?}",
                    difference(&self.view, &after)
                ));
            }
        }
        // nothing happened: now it must go through as foretold
        let outcome = self.make(call, request, false).await;
        let after = View::load(&self.world.owner).await;
        let done = self.compare(call, request.cloned(), foretold, outcome, after);
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
        let kept = told(&self.world, &self.world.capacity).await;
        let read = told(&self.world, &Capacity::default()).await;
        if kept == read {
            Ok(())
        } else {
            Err(format!("kept in memory: {kept:#?}\nread: {read:#?}"))
        }
    }

    pub async fn all(&mut self, steps: &[Step]) -> Outcome {
        for (number, step) in steps.iter().enumerate() {
            let place = |reason| format!("step {number}: {reason}");
            self.step(step).await.map_err(place)?;
            if number % AUDIT_EVERY == 0 {
                let place = |reason| format!("after step {number}, {step:?}: {reason}");
                self.audit().await.map_err(place)?;
                self.copy().await.map_err(place)?;
            }
        }
        stamper::run_once(&self.world.allocation)
            .await
            .expect("stamp");
        for (id, one) in &self.view.allocations {
            if one.periods == (1, 0) {
                *self.lived.entry(self.fleet.sold[id].1).or_default() += 1;
            }
        }
        self.audit().await
    }
}

fn same(foretold: &View, after: &View) -> Outcome {
    if foretold == after {
        Ok(())
    } else {
        Err(difference(foretold, after))
    }
}

/// What differs, foretold first.
fn difference(foretold: &View, after: &View) -> String {
    let mut found = Vec::new();
    for (id, slot) in &after.slots {
        if foretold.slots.get(id) != Some(slot) {
            found.push(format!(
                "slot {id}: foretold {:?}, is {slot:?}",
                foretold.slots.get(id)
            ));
        }
    }
    for (id, one) in &after.allocations {
        if foretold.allocations.get(id) != Some(one) {
            found.push(format!(
                "allocation {id}: foretold {:?}, is {one:?}",
                foretold.allocations.get(id)
            ));
        }
    }
    for id in foretold
        .allocations
        .keys()
        .filter(|id| !after.allocations.contains_key(id))
    {
        found.push(format!("allocation {id} is not there"));
    }
    found.join("\n")
}
