//! An endpoint of somebody else, which notes what arrives.
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use aws_lc_rs::hmac;
use axum::Router;
use axum::extract::State;
use axum::response::Redirect;
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc;

use super::TIMEOUT;

/// A delivery as it arrived.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) id: String,
    timestamp: String,
    pub(super) signatures: Vec<String>,
    pub(super) body: String,
}

impl Arrived {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    pub(super) fn revision(&self) -> String {
        self.json()["data"]["revision"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The signatures that a secret makes.
    pub(super) fn made_by(&self, secret: &str) -> usize {
        let key = STANDARD
            .decode(secret.strip_prefix("whsec_").expect("a secret"))
            .expect("base64");
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let content = format!("{}.{}.{}", self.id, self.timestamp, self.body);
        let expected = STANDARD.encode(hmac::sign(&key, content.as_bytes()));
        let expected = format!("v1,{expected}");
        self.signatures
            .iter()
            .filter(|one| **one == expected)
            .count()
    }
}

#[derive(Clone)]
struct Shared {
    answers: Arc<Mutex<VecDeque<u16>>>,
    arrived: mpsc::UnboundedSender<Arrived>,
}

/// An endpoint of somebody else.
pub(super) struct Receiver {
    pub(super) url: String,
    shared: Shared,
    pub(super) arrived: mpsc::UnboundedReceiver<Arrived>,
}

impl Receiver {
    pub(super) async fn start() -> Self {
        let (sender, arrived) = mpsc::unbounded_channel();
        let shared = Shared {
            answers: Arc::default(),
            arrived: sender,
        };
        let router = Router::new()
            .route("/", post(receive))
            .route("/away", post(async || Redirect::temporary("/")))
            .route("/silent", post(silent))
            .route("/up", get(async || "up"))
            .with_state(shared.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("port");
        let address = listener.local_addr().expect("address");
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            url: format!("http://{address}/"),
            shared,
            arrived,
        }
    }

    /// What the next ones are answered with; 200 after that.
    pub(super) fn will_answer(&self, statuses: &[u16]) {
        self.shared.answers.lock().expect("lock").extend(statuses);
    }

    pub(super) async fn next(&mut self) -> Arrived {
        let next = tokio::time::timeout(TIMEOUT, self.arrived.recv()).await;
        next.expect("a delivery in time").expect("a delivery")
    }
}

async fn receive(State(shared): State<Shared>, headers: HeaderMap, body: String) -> StatusCode {
    note(&shared, &headers, body);
    let next = shared.answers.lock().expect("lock").pop_front();
    StatusCode::from_u16(next.unwrap_or(200)).expect("a status")
}

/// Takes a delivery, and never answers.
async fn silent(State(shared): State<Shared>, headers: HeaderMap, body: String) {
    note(&shared, &headers, body);
    std::future::pending::<()>().await;
}

fn note(shared: &Shared, headers: &HeaderMap, body: String) {
    let text = |name: &str| headers[name].to_str().expect("text").to_owned();
    let signatures = text("webhook-signature");
    // a test that has ended takes nothing more
    let _ = shared.arrived.send(Arrived {
        id: text("webhook-id"),
        timestamp: text("webhook-timestamp"),
        signatures: signatures.split(' ').map(str::to_owned).collect(),
        body,
    });
}
