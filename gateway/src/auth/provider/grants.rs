//! What the embedded issuer remembers: requests under way, codes, refresh tokens, devices. In memory: a restart ends them.
//!
//! Times are in seconds since 1970 and come in as arguments. What was used once and comes again was stolen from one of the
//! two who had it, so it ends the whole sign-in (RFC 9700, 4.14).
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::clients::Client;

/// Lifetime of a request whose page is open.
const REQUEST_SECONDS: i64 = 600;
/// Lifetime of a code.
const CODE_SECONDS: i64 = 60;
/// Lifetime of a refresh token that nobody uses.
const REFRESH_SECONDS: i64 = 30 * 86_400;
/// Lifetime of a device code.
pub const DEVICE_SECONDS: i64 = 600;
/// Least time between two questions of a device.
pub const INTERVAL_SECONDS: i64 = 5;
/// Most entries of one kind.
const MOST: usize = 1000;
/// Letters that are told apart when read aloud, and spell nothing (RFC 8628, 6.1).
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";

/// What a client asked for when it sent a browser.
#[derive(Clone, Debug)]
pub struct Request {
    /// Who asks.
    pub client: Client,
    /// Where the code goes.
    pub redirect_uri: String,
    /// Digest of the verifier (RFC 7636).
    pub challenge: String,
    /// Given back with the code.
    pub state: String,
    /// Put into the id token.
    pub nonce: String,
    /// What was asked for.
    pub scope: String,
}

/// Somebody who has signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignIn {
    /// Names the sign-in.
    pub sid: String,
    /// Who.
    pub subject: String,
    /// Name of the principal.
    pub principal: String,
    /// With which client.
    pub client: Client,
    /// What was asked for.
    pub scope: String,
    /// When, in seconds since 1970.
    pub time: i64,
}

/// Why no tokens are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is unknown, has expired, or is another client's.
    Unknown,
    /// It was used before: the sign-in of this name has ended.
    Reused(String),
    /// Nobody has decided yet.
    Pending,
    /// The device asks too often.
    SlowDown,
    /// The device's code has expired.
    Expired,
    /// Somebody said no.
    Denied,
}

#[derive(Debug)]
struct Code {
    sign_in: SignIn,
    request: Request,
    used: bool,
}

#[derive(Debug)]
struct Refresh {
    sign_in: SignIn,
    used: bool,
}

#[derive(Debug)]
enum Outcome {
    Pending,
    Denied,
    Approved(SignIn),
}

#[derive(Debug)]
struct Device {
    user_code: String,
    client: Client,
    scope: String,
    interval: i64,
    next: i64,
    outcome: Outcome,
}

/// Entries with the time at which each ends.
#[derive(Debug)]
struct Shelf<T>(HashMap<String, (i64, T)>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Shelf<T> {
    /// Its new name; nothing when there is no place.
    fn put(&mut self, entry: T, now: i64, seconds: i64) -> Option<String> {
        self.0.retain(|_, (end, _)| *end > now);
        if self.0.len() >= MOST {
            return None;
        }
        let name = secret();
        self.0.insert(name.clone(), (now + seconds, entry));
        Some(name)
    }

    fn get(&mut self, name: &str, now: i64) -> Option<&mut T> {
        let (end, entry) = self.0.get_mut(name)?;
        (*end > now).then_some(entry)
    }

    fn take(&mut self, name: &str, now: i64) -> Option<T> {
        let (end, entry) = self.0.remove(name)?;
        (end > now).then_some(entry)
    }
}

#[derive(Debug, Default)]
struct Shelves {
    tickets: Shelf<()>,
    requests: Shelf<Request>,
    codes: Shelf<Code>,
    refreshes: Shelf<Refresh>,
    devices: Shelf<Device>,
}

/// Everything that is remembered.
#[derive(Debug, Default)]
pub struct Grants(Mutex<Shelves>);

/// What a device shows and asks with.
#[derive(Debug)]
pub struct DeviceCodes {
    /// The device asks with it.
    pub device_code: String,
    /// A person types it.
    pub user_code: String,
}

impl Grants {
    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What stands for the stack's code, once.
    pub fn ticket(&self, now: i64) -> Option<String> {
        self.shelves().tickets.put((), now, REQUEST_SECONDS)
    }

    /// Whether it is a ticket, which then is none any more.
    pub fn take_ticket(&self, ticket: &str, now: i64) -> bool {
        self.shelves().tickets.take(ticket, now).is_some()
    }

    /// Keeps a request while its page is open.
    pub fn request(&self, request: Request, now: i64) -> Option<String> {
        self.shelves().requests.put(request, now, REQUEST_SECONDS)
    }

    /// A request under way.
    pub fn find_request(&self, name: &str, now: i64) -> Option<Request> {
        self.shelves().requests.get(name, now).cloned()
    }

    /// The code for somebody who has signed in; the request is over then.
    pub fn approve(&self, name: &str, subject: &str, principal: &str, now: i64) -> Option<String> {
        let mut shelves = self.shelves();
        let request = shelves.requests.take(name, now)?;
        let sign_in = SignIn {
            sid: secret(),
            subject: subject.to_owned(),
            principal: principal.to_owned(),
            client: request.client,
            scope: request.scope.clone(),
            time: now,
        };
        let code = Code {
            sign_in,
            request,
            used: false,
        };
        shelves.codes.put(code, now, CODE_SECONDS)
    }

    /// Ends a request without a code.
    pub fn cancel(&self, name: &str, now: i64) -> Option<Request> {
        self.shelves().requests.take(name, now)
    }

    /// Who a code stands for, with the nonce of the request. A wrong verifier uses the code up too.
    ///
    /// # Errors
    /// Unknown, another client's, for another address, a wrong verifier, or used before.
    pub fn redeem(
        &self,
        code: &str,
        client: Client,
        redirect_uri: &str,
        verifier: &str,
        now: i64,
    ) -> Result<(SignIn, String), Refusal> {
        let mut shelves = self.shelves();
        let found = shelves.codes.get(code, now).ok_or(Refusal::Unknown)?;
        if found.request.client != client {
            return Err(Refusal::Unknown);
        }
        if std::mem::replace(&mut found.used, true) {
            let sid = found.sign_in.sid.clone();
            drop_sign_in(&mut shelves, &sid);
            return Err(Refusal::Reused(sid));
        }
        if found.request.redirect_uri != redirect_uri
            || !is_verifier(verifier)
            || challenge_of(verifier) != found.request.challenge
        {
            return Err(Refusal::Unknown);
        }
        Ok((found.sign_in.clone(), found.request.nonce.clone()))
    }

    /// A refresh token for a sign-in.
    pub fn refresh_token(&self, sign_in: &SignIn, now: i64) -> Option<String> {
        let refresh = Refresh {
            sign_in: sign_in.clone(),
            used: false,
        };
        self.shelves().refreshes.put(refresh, now, REFRESH_SECONDS)
    }

    /// Who a refresh token stands for; it is used up by this.
    ///
    /// # Errors
    /// Unknown, another client's, or used before.
    pub fn refresh(&self, token: &str, client: Client, now: i64) -> Result<SignIn, Refusal> {
        let mut shelves = self.shelves();
        let found = shelves.refreshes.get(token, now).ok_or(Refusal::Unknown)?;
        if found.sign_in.client != client {
            return Err(Refusal::Unknown);
        }
        if std::mem::replace(&mut found.used, true) {
            let sid = found.sign_in.sid.clone();
            drop_sign_in(&mut shelves, &sid);
            return Err(Refusal::Reused(sid));
        }
        Ok(found.sign_in.clone())
    }

    /// Which sign-in a refresh token of this client belongs to.
    pub fn sid_of(&self, token: &str, client: Client, now: i64) -> Option<String> {
        let mut shelves = self.shelves();
        let found = shelves.refreshes.get(token, now)?;
        (found.sign_in.client == client).then(|| found.sign_in.sid.clone())
    }

    /// Forgets all refresh tokens of a sign-in.
    pub fn end(&self, sid: &str) {
        drop_sign_in(&mut self.shelves(), sid);
    }

    /// Codes for a device.
    pub fn device(&self, client: Client, scope: &str, now: i64) -> Option<DeviceCodes> {
        let user_code = user_code();
        let device = Device {
            user_code: user_code.clone(),
            client,
            scope: scope.to_owned(),
            interval: INTERVAL_SECONDS,
            next: now,
            outcome: Outcome::Pending,
        };
        // one that has expired is still told so for a while
        let kept = 2 * DEVICE_SECONDS;
        let device_code = self.shelves().devices.put(device, now, kept)?;
        Some(DeviceCodes {
            device_code,
            user_code,
        })
    }

    /// The client whose device shows this code and waits.
    pub fn waiting(&self, user_code: &str, now: i64) -> Option<Client> {
        let mut shelves = self.shelves();
        find_waiting(&mut shelves, user_code, now).map(|device| device.client)
    }

    /// Decides for a device that waits: with a subject and its principal, or not at all. False when none waits.
    pub fn decide(&self, user_code: &str, who: Option<(&str, &str)>, now: i64) -> bool {
        let mut shelves = self.shelves();
        let Some(device) = find_waiting(&mut shelves, user_code, now) else {
            return false;
        };
        device.outcome = match who {
            None => Outcome::Denied,
            Some((subject, principal)) => Outcome::Approved(SignIn {
                sid: secret(),
                subject: subject.to_owned(),
                principal: principal.to_owned(),
                client: device.client,
                scope: device.scope.clone(),
                time: now,
            }),
        };
        true
    }

    /// What a device that asks gets.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn poll(&self, device_code: &str, client: Client, now: i64) -> Result<SignIn, Refusal> {
        let mut shelves = self.shelves();
        let Some((end, device)) = shelves.devices.0.get_mut(device_code) else {
            return Err(Refusal::Unknown);
        };
        if device.client != client {
            return Err(Refusal::Unknown);
        }
        if *end - DEVICE_SECONDS <= now {
            return Err(Refusal::Expired);
        }
        if now < device.next {
            device.interval += INTERVAL_SECONDS;
            device.next = now + device.interval;
            return Err(Refusal::SlowDown);
        }
        device.next = now + device.interval;
        match &device.outcome {
            Outcome::Pending => Err(Refusal::Pending),
            Outcome::Denied => {
                shelves.devices.0.remove(device_code);
                Err(Refusal::Denied)
            }
            Outcome::Approved(sign_in) => {
                let sign_in = sign_in.clone();
                // a device code is good for one answer
                shelves.devices.0.remove(device_code);
                Ok(sign_in)
            }
        }
    }
}

fn find_waiting<'a>(shelves: &'a mut Shelves, user_code: &str, now: i64) -> Option<&'a mut Device> {
    let typed: String = user_code
        .chars()
        .filter(char::is_ascii_alphabetic)
        .map(|c| c.to_ascii_uppercase())
        .collect();
    let mut devices = shelves.devices.0.values_mut();
    let found = devices.find(|(end, device)| {
        *end - DEVICE_SECONDS > now
            && matches!(device.outcome, Outcome::Pending)
            && device.user_code.replace('-', "") == typed
    });
    found.map(|(_, device)| device)
}

fn drop_sign_in(shelves: &mut Shelves, sid: &str) {
    shelves
        .refreshes
        .0
        .retain(|_, (_, refresh)| refresh.sign_in.sid != sid);
}

/// What nobody guesses.
fn secret() -> String {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has random numbers");
    URL_SAFE_NO_PAD.encode(bytes)
}

fn user_code() -> String {
    let mut bytes = [0; 8];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has random numbers");
    let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
    let letters: String = bytes.iter().map(letter).collect();
    format!("{}-{}", &letters[..4], &letters[4..])
}

/// 43 to 128 unreserved characters (RFC 7636, 4.1).
fn is_verifier(text: &str) -> bool {
    let unreserved = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    (43..=128).contains(&text.len()) && text.bytes().all(unreserved)
}

/// The challenge of a verifier by method S256.
pub fn challenge_of(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()))
}

#[cfg(test)]
#[path = "grants_tests.rs"]
mod tests;
