//! The claim protocol as a small machine, searched through completely: two clients, two slots of one node, a crash at
//! every point, and connections that outlive their client.
//!
//! The machine is the order of [`gpuaas_placement::reserve`] and nothing else: lock the key, look it up, rank on a
//! snapshot, lock the node, decide again, write, commit. The constraints of the database are left out on purpose:
//! the protocol must be right by itself, and each of its parts is shown to be needed by taking it away.
use std::collections::{HashSet, VecDeque};

const CLIENTS: usize = 2;

/// What is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// What was ranked is taken without a look under the lock.
    NoSecondLook,
    /// The node's lock is given back before the commit.
    EarlyUnlock,
    /// The key is not looked up.
    NoKey,
    /// The key's row is written in a transaction of its own, afterwards.
    KeyLater,
    /// Calls with one key do not wait for each other.
    NoKeyLock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    LockKey,
    LookUp,
    Rank,
    LockNode,
    LookAgain,
    Write,
    Commit,
    /// The answer is on its way.
    Answer,
    WriteKey,
    Gone,
}

/// A connection with its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Session {
    at: At,
    /// The client still listens. Without it the server ends the transaction some time.
    heard: bool,
    /// Slots that were free when it ranked, as bits.
    seen: u8,
    slot: Option<usize>,
    answer: Option<Answer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Answer {
    Won(usize),
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    /// Committed: how many live claims of each client are on each slot.
    claims: Vec<[u8; CLIENTS]>,
    /// Committed: the slot a key led to.
    keys: [Option<usize>; CLIENTS],
    /// Client and session that hold the node's lock, and each key's.
    node_lock: Option<(usize, usize)>,
    key_lock: [Option<usize>; CLIENTS],
    /// The first call of a client, and the one it makes after a crash.
    sessions: [[Option<Session>; 2]; CLIENTS],
    reported: [Option<Answer>; CLIENTS],
}

const FRESH: Session = Session {
    at: At::LockKey,
    heard: true,
    seen: 0,
    slot: None,
    answer: None,
};

impl State {
    fn first(slots: usize) -> Self {
        Self {
            claims: vec![[0; CLIENTS]; slots],
            keys: [None; CLIENTS],
            node_lock: None,
            key_lock: [None; CLIENTS],
            sessions: [[Some(FRESH), None]; CLIENTS],
            reported: [None; CLIENTS],
        }
    }

    fn free(&self) -> u8 {
        (0..self.claims.len())
            .filter(|slot| self.claims[*slot].iter().all(|count| *count == 0))
            .fold(0, |bits, slot| bits | 1 << slot)
    }

    fn end(&mut self, client: usize, number: usize) {
        if self.node_lock == Some((client, number)) {
            self.node_lock = None;
        }
        if self.key_lock[client] == Some(number) {
            self.key_lock[client] = None;
        }
        if let Some(session) = &mut self.sessions[client][number] {
            session.at = At::Gone;
        }
    }

    /// Every state that one step leads to.
    fn successors(&self, flaw: Flaw) -> Vec<Self> {
        let mut found = Vec::new();
        for client in 0..CLIENTS {
            for number in 0..2 {
                let Some(session) = self.sessions[client][number] else {
                    continue;
                };
                if session.at == At::Gone {
                    continue;
                }
                // an orphan goes no further than a commit that was sent
                if session.heard || session.at == At::Commit {
                    found.extend(self.step(client, number, session, flaw));
                }
                if session.heard && number == 0 {
                    // the client crashes, and asks again with the same key
                    let mut next = self.clone();
                    next.sessions[client][0] = Some(Session {
                        heard: false,
                        ..session
                    });
                    next.sessions[client][1] = Some(FRESH);
                    found.push(next);
                }
                if !session.heard {
                    // the server notices
                    let mut next = self.clone();
                    next.end(client, number);
                    found.push(next);
                }
            }
        }
        found
    }

    fn step(&self, client: usize, number: usize, now: Session, flaw: Flaw) -> Option<Self> {
        let mut next = self.clone();
        let mut session = now;
        match now.at {
            At::LockKey => {
                if flaw != Flaw::NoKeyLock {
                    if self.key_lock[client].is_some() {
                        return None;
                    }
                    next.key_lock[client] = Some(number);
                }
                session.at = At::LookUp;
            }
            At::LookUp => match self.keys[client] {
                Some(slot) if flaw != Flaw::NoKey => {
                    session.answer = Some(Answer::Won(slot));
                    session.at = At::Answer;
                }
                _ => session.at = At::Rank,
            },
            At::Rank => {
                session.seen = self.free();
                if session.seen == 0 {
                    session.answer = Some(Answer::Refused);
                    session.at = At::Answer;
                } else {
                    session.at = At::LockNode;
                }
            }
            At::LockNode => {
                if self.node_lock.is_some() {
                    return None;
                }
                next.node_lock = Some((client, number));
                session.at = At::LookAgain;
            }
            At::LookAgain => {
                let free = if flaw == Flaw::NoSecondLook {
                    session.seen
                } else {
                    self.free()
                };
                if free == 0 {
                    session.answer = Some(Answer::Refused);
                    session.at = At::Answer;
                } else {
                    session.slot = Some(free.trailing_zeros() as usize);
                    session.at = At::Write;
                }
            }
            At::Write => {
                if flaw == Flaw::EarlyUnlock {
                    next.node_lock = None;
                }
                session.at = At::Commit;
            }
            At::Commit => {
                let slot = session.slot.expect("chosen");
                next.claims[slot][client] += 1;
                next.end(client, number);
                session.answer = Some(Answer::Won(slot));
                if flaw == Flaw::KeyLater {
                    session.at = At::WriteKey;
                } else {
                    next.keys[client] = Some(slot);
                    session.at = At::Answer;
                }
                if !session.heard {
                    session.at = At::Gone;
                }
            }
            At::WriteKey => {
                next.keys[client] = session.slot;
                session.at = At::Answer;
            }
            At::Answer => {
                next.end(client, number);
                next.reported[client] = session.answer;
                session.at = At::Gone;
            }
            At::Gone => return None,
        }
        next.sessions[client][number] = Some(session);
        Some(next)
    }

    /// What is wrong with this state, wherever it lies.
    fn wrong(&self) -> Option<&'static str> {
        if self.claims.iter().any(|slot| slot.iter().sum::<u8>() > 1) {
            return Some("a slot is allocated twice");
        }
        let held = |client: usize| self.claims.iter().map(|slot| slot[client]).sum::<u8>();
        if (0..CLIENTS).any(|client| held(client) > 1) {
            return Some("one request has two effects");
        }
        None
    }

    /// What is wrong with it as an end.
    fn wrong_end(&self) -> Option<&'static str> {
        let mut winners = 0;
        for client in 0..CLIENTS {
            match self.reported[client] {
                None => return Some("a client waits for ever"),
                Some(Answer::Won(slot)) if self.claims[slot][client] == 1 => winners += 1,
                Some(Answer::Won(_)) => {
                    return Some("a client was told of a slot it does not hold");
                }
                Some(Answer::Refused) if self.claims.iter().any(|slot| slot[client] > 0) => {
                    return Some("a client was refused and holds a slot");
                }
                Some(Answer::Refused) => {}
            }
        }
        (winners != CLIENTS.min(self.claims.len()))
            .then_some("capacity was there and not allocated")
    }
}

/// Searches every state; how many there are, or the first thing that is wrong.
fn search(slots: usize, flaw: Flaw) -> Result<usize, &'static str> {
    let first = State::first(slots);
    let mut seen = HashSet::from([first.clone()]);
    let mut next = VecDeque::from([first]);
    while let Some(state) = next.pop_front() {
        if let Some(wrong) = state.wrong() {
            return Err(wrong);
        }
        let successors = state.successors(flaw);
        if successors.is_empty()
            && let Some(wrong) = state.wrong_end()
        {
            return Err(wrong);
        }
        for successor in successors {
            if seen.insert(successor.clone()) {
                next.push_back(successor);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn p1_p4_every_order_of_two_clients_with_crashes_allocates_each_slot_once() {
    for slots in [1, 2] {
        let states =
            search(slots, Flaw::None).unwrap_or_else(|wrong| panic!("{slots} slots: {wrong}"));
        println!("{slots} slots: {states} states");
        // few states would mean that the machine hardly moves
        assert!(states > 3_000, "{states}");
    }
}

#[test]
fn each_part_of_the_claim_protocol_is_needed() {
    let cases = [
        (Flaw::NoSecondLook, "a slot is allocated twice"),
        (Flaw::EarlyUnlock, "a slot is allocated twice"),
        (Flaw::NoKey, "one request has two effects"),
        (Flaw::KeyLater, "one request has two effects"),
        (Flaw::NoKeyLock, "one request has two effects"),
    ];
    for (flaw, wanted) in cases {
        assert_eq!(search(2, flaw), Err(wanted), "{flaw:?}");
    }
}
