//! An agent that stands still for longer than its leases, as a process that SIGSTOP stopped, or whose machine was paused.

use std::sync::mpsc;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use rusqlite::Connection;

use super::{Host, TIMEOUT, WORKERS, lock};

/// An agent that stands still: its threads wait for the other ends.
pub struct Stopped {
    _ends: Vec<mpsc::Sender<()>>,
}

impl Host {
    /// Waits until the agent stands still where the script says, then stops all of it, as SIGSTOP does: none of its tasks runs,
    /// and nobody is answered, until [`Host::goes_on`].
    pub async fn until_stopped(&self, place: &str) -> Stopped {
        self.wait_for(place, || self.director.was_hit()).await;
        let (stands, standing) = mpsc::channel();
        let agent = lock(&self.agent);
        let runtime = agent.as_ref().expect("an agent");
        let ends = (0..WORKERS).map(|_| {
            let (end, ended) = mpsc::channel::<()>();
            let stands = stands.clone();
            runtime.spawn(async move {
                stands.send(()).expect("somebody waits");
                // until it goes on
                let _nobody_sends = ended.recv();
            });
            end
        });
        let ends = ends.collect();
        for _thread in 0..WORKERS {
            standing.recv_timeout(TIMEOUT).expect("it stands still");
        }
        Stopped { _ends: ends }
    }

    /// The agent goes on where it stood, like a process that gets SIGCONT.
    pub fn goes_on(&self, stopped: Stopped) {
        self.director.forget_hit();
        drop(stopped);
    }

    /// So much time goes by that every lease of the host ends: only the clock is left out here. Returns the tokens of those that
    /// had not ended.
    pub async fn outlive_leases(&self) -> Vec<pb::FencingToken> {
        let live = self.state().await.leases.into_values();
        let tokens = live.flat_map(|lease| lease.slots.into_iter().filter_map(|slot| slot.token));
        let journal = Connection::open(self.path("state/journal.sqlite")).expect("a journal");
        let ended = journal.execute("UPDATE leases SET expires_nanos = 1", []);
        ended.expect("leases");
        tokens.collect()
    }
}
