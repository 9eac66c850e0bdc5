//! The one order that ends a session from outside: the first reason stands.
use tokio::sync::watch;

use crate::domain::end::End;

/// Ends a session.
#[derive(Clone, Debug)]
pub(crate) struct Kill(watch::Sender<Option<End>>);

/// Hears the order.
#[derive(Clone, Debug)]
pub(crate) struct Killed(watch::Receiver<Option<End>>);

/// An order and its hearer.
pub(crate) fn pair() -> (Kill, Killed) {
    let (give, hear) = watch::channel(None);
    (Kill(give), Killed(hear))
}

impl Kill {
    /// Orders the end.
    pub(crate) fn order(&self, end: End) {
        self.0.send_if_modified(|given| {
            let first = given.is_none();
            if first {
                *given = Some(end);
            }
            first
        });
    }
}

impl Killed {
    /// Waits for the order.
    pub(crate) async fn wait(&mut self) -> End {
        let given = self.0.wait_for(Option::is_some).await;
        match given.map(|given| given.clone()) {
            Ok(given) => given.unwrap_or(End::ShuttingDown),
            // whoever could give the order is gone, so it never comes
            Err(_) => std::future::pending().await,
        }
    }
}
