//! From where a request comes. The gateway says it of its clients, and every service hands it on with its own calls, as the
//! request id: an effect that one service has for another is recorded with the client that caused it.
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;

/// Most characters of the name that a client gives itself.
const MAX_AGENT: usize = 200;
/// Most characters of a region.
const MAX_REGION: usize = 63;

/// Metadata of the client's address.
pub const ADDRESS: &str = "x-client-address";
/// Metadata of the name that the client gives itself.
pub const USER_AGENT: &str = "x-client-agent";
/// Metadata of the region of the gateway that took the request.
pub const REGION: &str = "x-client-region";

tokio::task_local! {
    static ORIGIN: Arc<Origin>;
}

/// From where a request comes; all empty for work of the system itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Address of the client.
    pub address: String,
    /// What it calls itself: printable ASCII, at most 200 characters.
    pub user_agent: String,
    /// Region of the gateway that took the request.
    pub region: String,
}

impl Origin {
    /// A client that the server itself sees.
    pub fn new(address: Option<IpAddr>, headers: &HeaderMap, region: &str) -> Self {
        let agent = headers.get(http::header::USER_AGENT);
        Self {
            address: address.map_or_else(String::new, |one| one.to_canonical().to_string()),
            user_agent: printable(agent.map_or(&[], |value| value.as_bytes()), MAX_AGENT),
            region: printable(region.as_bytes(), MAX_REGION),
        }
    }

    /// The client that a calling service speaks for.
    pub fn handed_on(headers: &HeaderMap) -> Self {
        let text = |name: &str, most: usize| {
            let value = headers.get(name);
            printable(value.map_or(&[], |value| value.as_bytes()), most)
        };
        let address = text(ADDRESS, MAX_REGION);
        Self {
            // what is no address is nobody's
            address: address
                .parse::<IpAddr>()
                .map_or_else(|_| String::new(), |one| one.to_string()),
            user_agent: text(USER_AGENT, MAX_AGENT),
            region: text(REGION, MAX_REGION),
        }
    }

    /// The metadata that hands it on.
    pub fn metadata(&self) -> [(&'static str, &str); 3] {
        [
            (ADDRESS, &self.address),
            (USER_AGENT, &self.user_agent),
            (REGION, &self.region),
        ]
    }
}

/// What a header has of printable ASCII, the rest as question marks.
fn printable(bytes: &[u8], most: usize) -> String {
    bytes
        .iter()
        .take(most)
        .map(|byte| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '?',
        })
        .collect()
}

/// From where the request comes that is being served.
pub fn current() -> Arc<Origin> {
    ORIGIN.try_with(Arc::clone).unwrap_or_default()
}

/// Serves a request that comes from there.
pub fn scope<F: Future>(origin: Origin, serving: F) -> impl Future<Output = F::Output> {
    ORIGIN.scope(Arc::new(origin), serving)
}

/// What a task of its own does for the request that is being served.
pub fn carry<F: Future>(task: F) -> impl Future<Output = F::Output> {
    ORIGIN.scope(current(), task)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
        let value = |bytes: &[u8]| HeaderValue::from_bytes(bytes).expect("a value");
        let pairs = pairs.iter();
        pairs
            .map(|(name, bytes)| (http::HeaderName::from_static(name), value(bytes)))
            .collect()
    }

    #[test]
    fn what_a_client_says_of_itself_is_bounded_and_printable() {
        let long = [b'a'; 300];
        let seen = Origin::new(
            Some("::ffff:192.0.2.1".parse().expect("address")),
            &headers(&[("user-agent", &long)]),
            "r1",
        );
        assert_eq!(
            (
                seen.address.as_str(),
                seen.user_agent.len(),
                seen.region.as_str()
            ),
            ("192.0.2.1", 200, "r1")
        );
        let odd = Origin::new(None, &headers(&[("user-agent", b"a\tb\xffc")]), "");
        assert_eq!(
            (odd.address.as_str(), odd.user_agent.as_str()),
            ("", "a?b?c")
        );
        let forged = headers(&[
            (ADDRESS, b"alice"),
            (USER_AGENT, b"curl/8"),
            (REGION, b"r1"),
        ]);
        let forged = Origin::handed_on(&forged);
        assert_eq!(
            (forged.address.as_str(), forged.user_agent.as_str()),
            ("", "curl/8")
        );
    }

    #[tokio::test]
    async fn a_task_of_its_own_has_an_origin_when_it_is_given_one() {
        let origin = Origin {
            address: "192.0.2.1".to_owned(),
            ..Origin::default()
        };
        assert_eq!(*current(), Origin::default());
        let (carried, own) = scope(origin.clone(), async {
            let carried = tokio::spawn(carry(async { current() }));
            let own = tokio::spawn(async { current() });
            (carried.await.expect("ran"), own.await.expect("ran"))
        })
        .await;
        assert_eq!((&*carried, &*own), (&origin, &Origin::default()));
    }
}
