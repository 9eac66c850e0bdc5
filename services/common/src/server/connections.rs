//! The open connections of one listener: how many there are, of whom, and which of them rest.
//!
//! A connection rests while no request of it is being answered: before its first one, and between two. When the limit
//! of all or of one peer address is reached, the one that has rested longest is let go for the new one. So whoever
//! opens connections and stays silent takes places from itself, and in the end from nobody who speaks.
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What limits per peer address count by: an IPv4 address, or the /64 of an IPv6 address, for whoever has one of its
/// addresses has them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer(IpAddr);

impl Peer {
    /// The peer of an address.
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(four) => IpAddr::V4(four),
            IpAddr::V6(six) => {
                let network = six.to_bits() >> 64 << 64;
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
        })
    }
}

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It has not sent its first request yet.
    Silent,
    /// A request is being answered.
    Busy,
    /// Its last request has been answered.
    Resting,
}

/// The connections of one listener. Clones share them.
#[derive(Clone, Debug)]
pub struct Connections {
    most: usize,
    most_per_peer: usize,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    /// Grows with every connection and every rest.
    clock: u64,
    entries: HashMap<u64, Entry>,
    by_peer: HashMap<Peer, usize>,
    /// Those that rest, by the time of the clock.
    resting: BTreeMap<u64, u64>,
}

#[derive(Debug)]
struct Entry {
    /// Counted for this peer; nothing for a proxy, behind which there are many.
    peer: Option<Peer>,
    running: usize,
    /// Since when it rests.
    rests: Option<u64>,
    let_go: CancellationToken,
    activity: watch::Sender<Activity>,
}

/// One open connection; counted until it is dropped.
#[derive(Debug)]
pub struct Connection {
    id: u64,
    open: Arc<Mutex<Open>>,
    /// Cancelled when the place is needed for another.
    pub let_go: CancellationToken,
    /// What it does.
    pub activity: watch::Receiver<Activity>,
}

/// One request that is being answered.
#[derive(Debug)]
pub struct Running {
    id: u64,
    open: Arc<Mutex<Open>>,
}

/// Whose limit a connection was refused by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// That of its peer address.
    Peer,
    /// That of the listener.
    All,
}

impl Connections {
    /// At most so many at once, and of one peer address; 0 is no limit for one address.
    pub fn new(most: usize, most_per_peer: usize) -> Self {
        Self {
            most,
            most_per_peer,
            open: Arc::default(),
        }
    }

    /// Counts one more, in the place of one that rests when it must be.
    ///
    /// # Errors
    /// All of the peer's connections, or all there may be, are busy.
    pub fn enter(&self, peer: Option<Peer>) -> Result<Connection, Full> {
        let mut open = lock(&self.open);
        if let Some(peer) = peer
            && self.most_per_peer > 0
            && open.by_peer.get(&peer).copied().unwrap_or(0) >= self.most_per_peer
            && !open.let_go_one(Some(peer))
        {
            return Err(Full::Peer);
        }
        if open.entries.len() >= self.most && !open.let_go_one(None) {
            return Err(Full::All);
        }
        let id = open.tick();
        let let_go = CancellationToken::new();
        let (sender, activity) = watch::channel(Activity::Silent);
        if let Some(peer) = peer {
            *open.by_peer.entry(peer).or_default() += 1;
        }
        open.resting.insert(id, id);
        open.entries.insert(
            id,
            Entry {
                peer,
                running: 0,
                rests: Some(id),
                let_go: let_go.clone(),
                activity: sender,
            },
        );
        Ok(Connection {
            id,
            open: self.open.clone(),
            let_go,
            activity,
        })
    }

    /// Lets go the one that has rested longest, for a system that has no descriptor left; says whether there was one.
    pub fn let_go_one(&self) -> bool {
        lock(&self.open).let_go_one(None)
    }
}

impl Open {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn let_go_one(&mut self, of: Option<Peer>) -> bool {
        let found = self.resting.values().copied().find(|id| {
            let entry = self.entries.get(id);
            entry.is_some_and(|entry| of.is_none() || entry.peer == of)
        });
        if let Some(id) = found {
            self.remove(id);
        }
        found.is_some()
    }

    /// Forgets a connection, and ends it if it is still there.
    fn remove(&mut self, id: u64) {
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        if let Some(since) = entry.rests {
            self.resting.remove(&since);
        }
        if let Some(peer) = entry.peer
            && let Some(count) = self.by_peer.get_mut(&peer)
        {
            *count -= 1;
            if *count == 0 {
                self.by_peer.remove(&peer);
            }
        }
        entry.let_go.cancel();
    }
}

impl Connection {
    /// Makes a [`Running`] for each request of it, without keeping the connection counted.
    pub fn starter(&self) -> impl Fn() -> Running + Clone + Send + Sync + use<> {
        let (id, open) = (self.id, self.open.clone());
        move || begin(id, &open)
    }
}

fn begin(id: u64, shared: &Arc<Mutex<Open>>) -> Running {
    let mut open = lock(shared);
    let open = &mut *open;
    if let Some(entry) = open.entries.get_mut(&id) {
        entry.running += 1;
        if let Some(since) = entry.rests.take() {
            open.resting.remove(&since);
        }
        entry.activity.send_replace(Activity::Busy);
    }
    Running {
        id,
        open: shared.clone(),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        let open = &mut *open;
        let now = open.tick();
        let Some(entry) = open.entries.get_mut(&self.id) else {
            return;
        };
        entry.running -= 1;
        if entry.running == 0 {
            entry.rests = Some(now);
            entry.activity.send_replace(Activity::Resting);
            open.resting.insert(now, self.id);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.open).remove(self.id);
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> Option<Peer> {
        Some(Peer::of([192, 0, 2, last].into()))
    }

    #[test]
    fn the_longest_resting_connection_makes_place_for_a_new_one() {
        let connections = Connections::new(3, 0);
        let enter = |last| connections.enter(peer(last));
        let first = enter(1).expect("place");
        let second = enter(1).expect("place");
        let busy = first.starter()();
        let third = enter(2).expect("place");
        let fourth = enter(3).expect("in the place of the second");
        assert!(second.let_go.is_cancelled());
        assert!(!first.let_go.is_cancelled(), "it is busy");
        drop(busy);
        let _fifth = enter(3).expect("in the place of the third");
        assert!(third.let_go.is_cancelled(), "it rested before the first");
        let _sixth = enter(3).expect("place");
        assert!(fourth.let_go.is_cancelled());
        let _seventh = enter(3).expect("place");
        assert!(first.let_go.is_cancelled(), "it spoke last");
    }

    #[test]
    fn a_peer_takes_places_from_itself_alone() {
        let connections = Connections::new(100, 2);
        let other = connections.enter(peer(2)).expect("place");
        let own = [1, 1].map(|last| connections.enter(peer(last)).expect("place"));
        let third = connections
            .enter(peer(1))
            .expect("in the place of its first");
        assert!(own[0].let_go.is_cancelled() && !own[1].let_go.is_cancelled());
        assert!(!other.let_go.is_cancelled());
        let _busy = [own[1].starter()(), third.starter()()];
        let full = connections.enter(peer(1)).expect_err("both are busy");
        assert_eq!(full, Full::Peer);
        let proxy = connections.enter(None).expect("a proxy is not counted");
        drop(own);
        let _place = connections.enter(peer(1)).expect("one has ended");
        drop((other, proxy, third));
        assert_eq!(lock(&connections.open).by_peer.len(), 1);
    }

    #[test]
    fn a_listener_whose_connections_are_all_busy_takes_no_more() {
        let connections = Connections::new(1, 0);
        let only = connections.enter(peer(1)).expect("place");
        assert_eq!(*only.activity.borrow(), Activity::Silent);
        let (one, two) = (only.starter()(), only.starter()());
        assert_eq!(connections.enter(peer(2)).expect_err("full"), Full::All);
        drop(one);
        assert_eq!(*only.activity.borrow(), Activity::Busy);
        assert!(!connections.let_go_one());
        drop(two);
        assert_eq!(*only.activity.borrow(), Activity::Resting);
        assert!(connections.let_go_one());
        assert!(only.let_go.is_cancelled());
    }

    #[test]
    fn an_ipv6_network_is_one_peer() {
        let peer = |text: &str| Peer::of(text.parse().expect("address"));
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:2"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("192.0.2.1"), peer("::ffff:192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
    }
}
