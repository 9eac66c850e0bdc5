//! Session tokens: random, of one VM, in memory alone, known by their digest.
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::ids::AllocationId;

/// Longest lifetime of a token, in seconds.
pub const MOST_SECONDS: u64 = 21_600;
/// Tokens of one VM at a time; one more ends the oldest.
const MOST: usize = 64;

/// The tokens of all VMs. A restart of the agent ends them: programs then ask for another.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<AllocationId, VecDeque<Session>>>);

struct Session {
    digest: [u8; 32],
    ends: Instant,
}

impl Sessions {
    /// A token of a VM from these random bytes. Tokens of VMs that are not among `present` end.
    pub fn issue(
        &self,
        of: AllocationId,
        present: &[AllocationId],
        random: [u8; 32],
        lifetime: Duration,
        now: Instant,
    ) -> String {
        let token = hex::encode(random);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|id, _| present.contains(id));
        let own = all.entry(of).or_default();
        own.retain(|session| now < session.ends);
        if own.len() == MOST {
            own.pop_front();
        }
        own.push_back(Session {
            digest: digest(&token),
            ends: now + lifetime,
        });
        token
    }

    /// Whether this is a token of this VM that lives.
    pub fn knows(&self, of: AllocationId, token: &str, now: Instant) -> bool {
        let digest = digest(token);
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&of).is_some_and(|own| {
            own.iter()
                .any(|session| session.digest == digest && now < session.ends)
        })
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn vm(number: u128) -> AllocationId {
        AllocationId(Uuid::from_u128(number))
    }

    #[test]
    fn p11_a_token_is_of_one_vm_and_ends_with_its_time_and_with_the_vm() {
        let (sessions, now, lifetime) =
            (Sessions::default(), Instant::now(), Duration::from_secs(60));
        let (both, one) = ([vm(1), vm(2)], [vm(2)]);
        let token = sessions.issue(vm(1), &both, [1; 32], lifetime, now);
        assert_eq!(token.len(), 64);
        assert!(sessions.knows(vm(1), &token, now));
        assert!(!sessions.knows(vm(2), &token, now), "of the other VM");
        assert!(!sessions.knows(vm(1), &token[1..], now));
        assert!(!sessions.knows(vm(1), "", now));
        let last = now + lifetime - Duration::from_nanos(1);
        assert!(sessions.knows(vm(1), &token, last));
        assert!(!sessions.knows(vm(1), &token, now + lifetime));
        // the VM is gone when the next one gets a token
        sessions.issue(vm(2), &one, [2; 32], lifetime, now);
        assert!(!sessions.knows(vm(1), &token, now));
    }

    #[test]
    fn a_vm_has_a_bounded_number_of_tokens() {
        let (sessions, now, lifetime) =
            (Sessions::default(), Instant::now(), Duration::from_secs(60));
        let tokens: Vec<String> = (0..=MOST)
            .map(|number| {
                let random = [u8::try_from(number).unwrap(); 32];
                sessions.issue(vm(1), &[vm(1)], random, lifetime, now)
            })
            .collect();
        assert!(!sessions.knows(vm(1), &tokens[0], now), "the oldest ended");
        assert!(
            tokens[1..]
                .iter()
                .all(|token| sessions.knows(vm(1), token, now))
        );
        let held = |sessions: &Sessions| sessions.0.lock().unwrap()[&vm(1)].len();
        assert_eq!(held(&sessions), MOST);
        sessions.issue(vm(1), &[vm(1)], [255; 32], lifetime, now + lifetime);
        assert_eq!(held(&sessions), 1, "those that ended are forgotten");
    }
}
