//! What a host is told to do wrong, at the agent's own seams: the edges of its steps, its wiper.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use gpuaas_agent::disk::wipe::{HostWiper, WipeJob, Wiped, Wiper};
use gpuaas_agent::disk::wipe_log::{Note, WipeLog};
use gpuaas_agent::error::{HostError, HostResult};
use gpuaas_agent::faults::{Edge, Edges, Place};
use gpuaas_proto::gpuaas::agent::v1::FailureClass;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tokio::sync::watch;

use super::lock;

/// What goes wrong.
#[derive(Default)]
pub struct Script {
    /// Fail this step of this kind of operation, every time.
    pub fail: Option<(&'static str, &'static str, ErrorReason, FailureClass)>,
    /// Stay in this step of this kind until the script says otherwise.
    pub stay: Option<(&'static str, &'static str)>,
    /// Die here, once.
    pub kill: Option<Kill>,
    /// Stand still here, once, until the hit is forgotten.
    pub stop: Option<Kill>,
    /// Say that a disk was wiped and leave it as it is.
    pub lie: bool,
    /// Die when a wipe notes how far it is, once.
    pub die_at_note: bool,
    /// What every wipe found noted of an earlier run of it, oldest first.
    pub noted: Vec<Option<Note>>,
    /// What guests answer to a command, in turn, the last one for ever: exit status and output. Any other: success, nothing.
    pub answers: BTreeMap<&'static str, Vec<(u32, &'static str)>>,
    /// Commands that guests were asked to run, oldest first; not those of logins.
    pub requested: Vec<String>,
    /// Guests let nobody in.
    pub no_login: bool,
    /// Somebody else answers at the guests' addresses.
    pub other_host_key: bool,
    /// Guests that start say the boot they were at.
    pub same_boot: bool,
}

/// Where an agent dies, or stands still.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    pub kind: &'static str,
    pub step: String,
    pub edge: Edge,
}

#[derive(Clone)]
pub struct Director(Arc<Shared>);

struct Shared {
    script: Mutex<Script>,
    hit: Mutex<bool>,
    changed: watch::Sender<u64>,
}

impl Default for Director {
    fn default() -> Self {
        Self(Arc::new(Shared {
            script: Mutex::default(),
            hit: Mutex::default(),
            changed: watch::channel(0).0,
        }))
    }
}

impl Director {
    pub fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut lock(&self.0.script));
        self.0.changed.send_modify(|count| *count += 1);
    }

    pub fn read<T>(&self, read: impl FnOnce(&Script) -> T) -> T {
        read(&lock(&self.0.script))
    }

    pub fn was_hit(&self) -> bool {
        *lock(&self.0.hit)
    }

    pub fn forget_hit(&self) {
        *lock(&self.0.hit) = false;
        self.0.changed.send_modify(|count| *count += 1);
    }

    /// What a guest answers to a command.
    pub fn answer(&self, command: &str) -> (u32, &'static str) {
        let mut script = lock(&self.0.script);
        script.requested.push(command.to_owned());
        match script.answers.get_mut(command) {
            Some(answers) if answers.len() > 1 => answers.remove(0),
            Some(answers) => answers.first().copied().unwrap_or_default(),
            None => (0, ""),
        }
    }

    /// Takes an order for this place.
    fn is_due(
        &self,
        place: Place<'_>,
        order: impl FnOnce(&mut Script) -> &mut Option<Kill>,
    ) -> bool {
        let mut script = lock(&self.0.script);
        let order = order(&mut script);
        let here = order.as_ref().is_some_and(|at| {
            (at.kind, at.step.as_str(), at.edge) == (place.kind.as_str(), place.step, place.edge)
        });
        if here {
            *order = None;
            *lock(&self.0.hit) = true;
        }
        here
    }
}

#[async_trait]
impl Edges for Director {
    async fn pass(&self, place: Place<'_>) -> HostResult<()> {
        let mut changed = self.0.changed.subscribe();
        if self.is_due(place, |script| &mut script.kill) {
            // whoever gave the order ends everything of this agent; nothing goes on past here
            std::future::pending::<()>().await;
        }
        if self.is_due(place, |script| &mut script.stop) {
            while self.was_hit() {
                let _the_sender_lives = changed.changed().await;
            }
        }
        let here = (place.kind.as_str(), place.step);
        if place.edge == Edge::After {
            return Ok(());
        }
        loop {
            changed.borrow_and_update();
            let (stays, fails) = self.read(|script| (script.stay, script.fail));
            if stays == Some(here) {
                let _the_sender_lives = changed.changed().await;
                continue;
            }
            let Some((_, _, reason, class)) = fails.filter(|fail| (fail.0, fail.1) == here) else {
                return Ok(());
            };
            return Err(HostError {
                reason,
                class,
                message: format!("scripted failure at {}", place.step),
                field: None,
                serial_log_end: String::new(),
            });
        }
    }
}

#[async_trait]
impl Wiper for Director {
    async fn wipe(&self, job: WipeJob<'_>) -> HostResult<Wiped> {
        if self.read(|script| script.lie) {
            return Ok(Wiped {
                method: "blkdiscard",
                how: "nothing was done".to_owned(),
            });
        }
        let noted = job.log.noted();
        lock(&self.0.script).noted.push(noted);
        let log = Watched {
            log: job.log,
            director: self,
        };
        let done = HostWiper::default()
            .wipe(WipeJob { log: &log, ..job })
            .await;
        if self.was_hit() {
            // whoever gave the order ends everything of this agent; nothing goes on past here
            std::future::pending::<()>().await;
        }
        done
    }
}

/// A wipe's log at which the agent may die.
struct Watched<'a> {
    log: &'a dyn WipeLog,
    director: &'a Director,
}

impl WipeLog for Watched<'_> {
    fn noted(&self) -> Option<Note> {
        self.log.noted()
    }

    fn note(&self, note: Note) -> HostResult<()> {
        self.log.note(note)?;
        let dies = std::mem::take(&mut lock(&self.director.0.script).die_at_note);
        if dies {
            *lock(&self.director.0.hit) = true;
            return Err(HostError::internal("the agent dies here"));
        }
        Ok(())
    }

    fn progress(&self, percent: u32, message: &str) {
        self.log.progress(percent, message);
    }
}
