//! Webhooks against a real receiver: signed, in order, at least once, by several gateways, and to nowhere private.
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::hmac;
use axum::Router;
use axum::extract::State;
use axum::response::Redirect;
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpuaas_dev::until::until;
use gpuaas_gateway::webhooks::events::EVENT_TYPES;
use gpuaas_proto::gpuaas::internal::events::v1::Event;
use http::{HeaderMap, StatusCode};
use prost_types::value::Kind;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::world::{World, answer, field, reason};

/// Longer than anything here may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A delivery as it arrived.
#[derive(Debug)]
struct Arrived {
    id: String,
    timestamp: String,
    signatures: Vec<String>,
    body: String,
}

impl Arrived {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    fn revision(&self) -> String {
        self.json()["data"]["revision"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The signatures that a secret makes.
    fn made_by(&self, secret: &str) -> usize {
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
struct Receiver {
    url: String,
    shared: Shared,
    arrived: mpsc::UnboundedReceiver<Arrived>,
}

impl Receiver {
    async fn start() -> Self {
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
    fn will_answer(&self, statuses: &[u16]) {
        self.shared.answers.lock().expect("lock").extend(statuses);
    }

    async fn next(&mut self) -> Arrived {
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

async fn world() -> World {
    World::start_with(|config, _| {
        config.webhooks.allow_insecure = true;
        config.webhooks.poll_seconds = 0.05;
        config.webhooks.first_retry_seconds = 0.05;
        config.webhooks.timeout_seconds = 30.0;
    })
    .await
}

async fn change(world: &World, method: Method, target: &str, body: Value) -> (u16, Value) {
    let mut request = world
        .http
        .request(method, world.url(target))
        .bearer_auth(world.token("demo"))
        .header("x-idempotency-key", Uuid::new_v4().to_string());
    if !body.is_null() {
        request = request.json(&body);
    }
    answer(request.send().await.expect("answer")).await
}

async fn create(world: &World, body: Value) -> Value {
    let target = format!("/api/v1/projects/{}/webhooks", world.seeded.project_id);
    let (status, made) = change(world, Method::POST, &target, body).await;
    assert_eq!(status, 200, "{made}");
    made
}

fn target(webhook: &Value) -> String {
    format!("/api/v1/webhooks/{}", webhook["id"].as_str().expect("id"))
}

fn event(world: &World, kind: &str, object: Uuid, revision: i64) -> Event {
    let now = jiff::Timestamp::now();
    let state = prost_types::Value {
        kind: Some(Kind::StringValue("active".to_owned())),
    };
    Event {
        r#type: kind.to_owned(),
        aggregate_id: object.to_string(),
        revision,
        time: Some(prost_types::Timestamp {
            seconds: now.as_second(),
            nanos: now.subsec_nanosecond(),
        }),
        project_id: world.seeded.project_id.to_string(),
        data: Some(prost_types::Struct {
            fields: [("state".to_owned(), state)].into(),
        }),
        ..Event::default()
    }
}

/// The deliveries of a webhook once they are as wanted, newest first.
async fn deliveries(
    world: &World,
    webhook: &Value,
    wanted: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    let target = format!("{}/deliveries", target(webhook));
    let look = async {
        loop {
            let (status, body) = world.call(Method::GET, &target, "demo").await;
            assert_eq!(status, 200, "{body}");
            let all = body["deliveries"].as_array().expect("a list").clone();
            if wanted(&all) {
                return all;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(TIMEOUT, look).await;
    found.expect("the deliveries in time")
}

fn all_in(state: &'static str, count: usize) -> impl Fn(&[Value]) -> bool {
    move |all| all.len() == count && all.iter().all(|one| one["state"] == state)
}

#[tokio::test]
async fn an_event_is_delivered_signed_and_the_secret_is_shown_once() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let collection = format!("/api/v1/projects/{}/webhooks", world.seeded.project_id);
    let body =
        json!({ "url": receiver.url, "event_types": ["allocation.failed", "allocation.active"] });
    let (status, made) = world.post(&collection, &body, "k-1").await;
    assert_eq!(status, 200, "{made}");
    let secret = made["secret"].as_str().expect("a secret").to_owned();
    let (_, again) = world.post(&collection, &body, "k-1").await;
    assert_eq!((&again["id"], &again["secret"]), (&made["id"], &json!("")));
    assert_eq!(
        made["event_types"],
        json!(["allocation.active", "allocation.failed"])
    );

    let object = Uuid::now_v7();
    world.log.append(event(&world, "slot.available", object, 1));
    world
        .log
        .append(event(&world, "allocation.stopped", object, 2));
    world
        .log
        .append(event(&world, "allocation.active", object, 3));
    let got = receiver.next().await;
    assert_eq!((got.made_by(&secret), got.signatures.len()), (1, 1));
    let sent = got.json();
    assert_eq!(sent["type"], "allocation.active");
    assert_eq!(sent["data"]["allocation_id"], object.to_string());
    assert_eq!(sent["data"]["state"], "active");
    let listed = deliveries(&world, &made, all_in("delivered", 1)).await;
    assert_eq!(listed[0]["id"], got.id);
    assert_eq!(listed[0]["response_status"], 200);
    assert_eq!(listed[0]["attempts"], 1);

    // nobody reads the secret again: not by the API, not in the database, not in the audit trail
    for path in [collection.clone(), target(&made)] {
        let (_, body) = world.call(Method::GET, &path, "demo").await;
        assert!(!body.to_string().contains(&secret), "{body}");
    }
    let bytes = STANDARD.decode(&secret[6..]).expect("base64");
    let pool = world.pool().await;
    let sealed: Vec<u8> = sqlx::query_scalar("SELECT secret FROM webhooks")
        .fetch_one(&pool)
        .await
        .expect("row");
    assert!(!sealed.windows(bytes.len()).any(|part| part == bytes));
    let audited: Vec<String> =
        sqlx::query_scalar("SELECT detail::text FROM audit WHERE action = 'webhook.create'")
            .fetch_all(&pool)
            .await
            .expect("rows");
    assert_eq!(audited.len(), 1, "on record, once");
    assert!(!audited[0].contains("whsec_"), "{audited:?}");

    // the same event once more, by hand
    let path = format!("{}/deliveries/{}:redeliver", target(&made), got.id);
    let (status, body) = change(&world, Method::POST, &path, json!({})).await;
    assert_eq!(status, 200, "{body}");
    let second = receiver.next().await;
    assert_eq!((&second.id, &second.body), (&got.id, &got.body));
}

#[tokio::test]
async fn what_fails_is_repeated_and_later_events_of_the_object_wait_for_it() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let made = create(&world, json!({ "url": receiver.url })).await;
    let (first, other) = (Uuid::now_v7(), Uuid::now_v7());
    receiver.will_answer(&[500, 500]);
    world
        .log
        .append(event(&world, "allocation.active", first, 1));
    world
        .log
        .append(event(&world, "allocation.stopped", first, 2));
    let mut seen = Vec::new();
    for _ in 0..4 {
        let got = receiver.next().await;
        seen.push((got.id.clone(), got.revision()));
    }
    let revisions: Vec<&str> = seen.iter().map(|(_, revision)| revision.as_str()).collect();
    assert_eq!(revisions, ["1", "1", "1", "2"]);
    assert!(
        seen[..3].iter().all(|(id, _)| *id == seen[0].0),
        "one delivery"
    );
    let listed = deliveries(&world, &made, all_in("delivered", 2)).await;
    assert_eq!(
        (&listed[1]["attempts"], &listed[0]["attempts"]),
        (&json!(3), &json!(1))
    );
    let (_, webhook) = world.call(Method::GET, &target(&made), "demo").await;
    assert!(webhook.get("failing_time").is_none(), "{webhook}");

    // a ledger that was restored has other events at the same positions
    world.log.keep(1);
    world
        .log
        .append(event(&world, "allocation.active", other, 1));
    world
        .log
        .append(event(&world, "allocation.failed", other, 2));
    let last = receiver.next().await;
    assert_eq!(last.json()["data"]["allocation_id"], other.to_string());
}

#[tokio::test]
async fn two_gateways_share_the_work_and_do_none_of_it_twice() {
    const EVENTS: usize = 60;
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let made = create(&world, json!({ "url": receiver.url })).await;
    let (_second, base) = world.another_gateway();
    world.until_answers(&base).await;
    let objects: Vec<Uuid> = (0..6).map(|_| Uuid::now_v7()).collect();
    for index in 0..EVENTS {
        let object = objects[index % objects.len()];
        let revision = (index / objects.len()) as i64 + 1;
        world
            .log
            .append(event(&world, "allocation.updated", object, revision));
    }
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    for _ in 0..EVENTS {
        let sent = receiver.next().await.json();
        let object = sent["data"]["allocation_id"]
            .as_str()
            .expect("id")
            .to_owned();
        let revision: i64 = sent["data"]["revision"]
            .as_str()
            .and_then(|one| one.parse().ok())
            .expect("revision");
        let before = last.insert(object, revision).unwrap_or_default();
        assert_eq!(revision, before + 1, "in order, each once");
    }
    let listed = deliveries(&world, &made, |all| {
        all.len() == 50 && all.iter().all(|one| one["state"] == "delivered")
    })
    .await;
    assert!(listed.iter().all(|one| one["attempts"] == 1));
    assert!(receiver.arrived.try_recv().is_err(), "nothing twice");
}

/// Of the only gateway that delivers, an attempt is under way when it is killed.
#[tokio::test]
async fn a_gateway_that_is_killed_loses_nothing() {
    let world = World::start_with(|config, _| {
        config.webhooks.allow_insecure = true;
        config.webhooks.timeout_seconds = 2.0;
        config.webhooks.poll_seconds = 0.05;
    })
    .await;
    let mut receiver = Receiver::start().await;
    let silent = format!("{}silent", receiver.url);
    let made = create(&world, json!({ "url": silent })).await;
    world
        .log
        .append(event(&world, "allocation.active", Uuid::now_v7(), 1));
    let first = receiver.next().await;
    // this one is gone, as killed: nothing was noted of the attempt
    let (second, base) = world.another_gateway();
    world.until_answers(&base).await;
    let mut world = world;
    world.running.abort_all();
    while world.running.join_next().await.is_some() {}
    let pool = world.pool().await;
    sqlx::query("UPDATE webhooks SET url = $1")
        .bind(&receiver.url)
        .execute(&pool)
        .await
        .expect("moved");
    let again = receiver.next().await;
    assert_eq!((&again.id, &again.body), (&first.id, &first.body));
    let look = async {
        loop {
            let state: String = sqlx::query_scalar("SELECT state FROM webhook_deliveries")
                .fetch_one(&pool)
                .await
                .expect("row");
            if state == "delivered" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, look)
        .await
        .expect("delivered");
    assert!(made["id"].is_string());
    drop(second);
}

#[tokio::test]
async fn two_secrets_sign_while_one_takes_the_others_place() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let made = create(&world, json!({ "url": receiver.url })).await;
    let old = made["secret"].as_str().expect("a secret");
    let rotate = format!("{}:rotateSecret", target(&made));
    let ping = format!("{}:ping", target(&made));
    let (status, rotated) = change(&world, Method::POST, &rotate, json!({})).await;
    assert_eq!(status, 200, "{rotated}");
    let new = rotated["secret"].as_str().expect("a secret");
    assert_ne!(old, new);
    assert!(rotated["previous_secret_expire_time"].is_string());
    let (status, queued) = change(&world, Method::POST, &ping, json!({})).await;
    assert_eq!(
        (status, &queued["event_type"]),
        (200, &json!("webhook.ping"))
    );
    let got = receiver.next().await;
    assert_eq!((got.made_by(new), got.made_by(old)), (1, 1));
    assert_eq!(got.json()["data"]["webhook_id"], made["id"]);
    // at once
    let (_, last) = change(&world, Method::POST, &rotate, json!({ "overlap": "0s" })).await;
    change(&world, Method::POST, &ping, json!({})).await;
    let got = receiver.next().await;
    let newest = last["secret"].as_str().expect("a secret");
    assert_eq!((got.made_by(newest), got.signatures.len()), (1, 1));
    let (status, body) = change(
        &world,
        Method::POST,
        &rotate,
        json!({ "overlap": "700000s" }),
    )
    .await;
    assert_eq!((status, field(&body)), (400, "overlap"));
}

#[tokio::test]
async fn an_endpoint_that_is_gone_disables_its_webhook_which_can_be_enabled_again() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let made = create(&world, json!({ "url": receiver.url })).await;
    let object = Uuid::now_v7();
    receiver.will_answer(&[410]);
    world
        .log
        .append(event(&world, "allocation.active", object, 1));
    world
        .log
        .append(event(&world, "allocation.stopped", object, 2));
    receiver.next().await;
    let listed = deliveries(&world, &made, all_in("failed", 2)).await;
    assert_eq!(listed[1]["response_status"], 410);
    let (_, webhook) = world.call(Method::GET, &target(&made), "demo").await;
    assert_eq!(webhook["state"], "disabled");
    assert_eq!(webhook["disable_reason"], "The endpoint answered 410 Gone.");
    let pool = world.pool().await;
    let audited: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM audit WHERE action = 'webhook.disable' AND principal = 'gateway'",
    )
    .fetch_one(&pool)
    .await
    .expect("count");
    assert_eq!(audited, 1);
    // its members read of it, too
    let feed = format!("/api/v1/projects/{}/activities", world.seeded.project_id);
    let (status, feed) = world.call(Method::GET, &feed, "demo").await;
    assert_eq!(status, 200, "{feed}");
    let all = feed["activities"].as_array().expect("a list");
    let of_it = all.iter().find(|one| one["action"] == "webhook.disable");
    let of_it = of_it.expect("in the feed");
    assert_eq!(
        (&of_it["summary"], &of_it["actor_kind"], &of_it["name"]),
        (
            &json!("Disabled the webhook"),
            &json!("platform"),
            &json!("127.0.0.1")
        )
    );
    let redeliver = format!(
        "{}/deliveries/{}:redeliver",
        target(&made),
        listed[0]["id"].as_str().expect("id")
    );
    let (status, body) = change(&world, Method::POST, &redeliver, json!({})).await;
    assert_eq!((status, reason(&body)), (400, "STATE_CONFLICT"));
    // what happens meanwhile is not for it
    world
        .log
        .append(event(&world, "allocation.starting", object, 3));
    let stale = json!({ "disabled": false, "etag": made["etag"] });
    let (status, body) = change(&world, Method::PATCH, &target(&made), stale).await;
    assert_eq!((status, reason(&body)), (409, "ETAG_STALE"));
    let rotate = format!("{}:rotateSecret", target(&made));
    let stale = json!({ "etag": made["etag"] });
    let (status, body) = change(&world, Method::POST, &rotate, stale).await;
    assert_eq!((status, reason(&body)), (409, "ETAG_STALE"));
    until_position(&pool, 3).await;
    let enable = json!({ "disabled": false, "etag": webhook["etag"] });
    let (status, body) = change(&world, Method::PATCH, &target(&made), enable).await;
    assert_eq!((status, &body["state"]), (200, &json!("enabled")), "{body}");
    let (status, _) = change(&world, Method::POST, &redeliver, json!({})).await;
    assert_eq!(status, 200);
    assert_eq!(receiver.next().await.revision(), "2");
    let (status, _) = change(&world, Method::DELETE, &target(&made), Value::Null).await;
    assert_eq!(status, 200);
    let (status, body) = world.call(Method::GET, &target(&made), "demo").await;
    assert_eq!((status, field(&body)), (404, "webhook_id"));
}

async fn until_position(pool: &sqlx::PgPool, position: i64) {
    until("the gateway to read on", TIMEOUT, async || {
        let now: i64 = sqlx::query_scalar("SELECT position FROM webhook_head")
            .fetch_one(pool)
            .await
            .expect("row");
        (now >= position).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let made = create(&world, json!({ "url": format!("{}away", receiver.url) })).await;
    let ping = format!("{}:ping", target(&made));
    change(&world, Method::POST, &ping, json!({})).await;
    let tried = |all: &[Value]| all.iter().any(|one| one["attempts"].as_u64() > Some(1));
    let listed = deliveries(&world, &made, tried).await;
    assert_eq!(listed[0]["response_status"], 307);
    assert!(
        receiver.arrived.try_recv().is_err(),
        "nobody was redirected"
    );
}

/// As it is in production: nothing but HTTPS to public addresses, when it is made and when it is called.
#[tokio::test]
async fn nothing_private_is_called() {
    let world = World::start_with(|config, _| config.webhooks.poll_seconds = 0.05).await;
    let mut receiver = Receiver::start().await;
    let collection = format!("/api/v1/projects/{}/webhooks", world.seeded.project_id);
    for url in [
        receiver.url.as_str(),
        "https://127.0.0.1/",
        "https://169.254.169.254/latest/meta-data/",
        "https://[::ffff:10.0.0.1]/",
        "https://localhost/",
        "https://me:secret@hooks.example.com/",
    ] {
        let (status, body) = change(&world, Method::POST, &collection, json!({ "url": url })).await;
        assert_eq!(
            (status, reason(&body), field(&body)),
            (400, "FIELD_INVALID", "url"),
            "{url}"
        );
        assert!(!body.to_string().contains("secret@"), "{body}");
    }
    let body = json!({ "url": "https://hooks.example.com/", "event_types": ["allocation.active", "slot.available"] });
    let (status, body) = change(&world, Method::POST, &collection, body).await;
    assert_eq!((status, field(&body)), (400, "event_types[1]"));
    // one that was made under another setting, and one whose name leads home
    let body = json!({ "url": "https://hooks.example.com/" });
    let made = create(&world, body).await;
    let pool = world.pool().await;
    let port = receiver.url.rsplit(':').next().expect("port");
    for (url, error) in [
        (
            receiver.url.clone(),
            "the URL does not lead to a public address by HTTPS",
        ),
        (
            format!("https://localhost.localdomain:{port}"),
            "the host has no public address",
        ),
    ] {
        sqlx::query("UPDATE webhooks SET url = $1")
            .bind(&url)
            .execute(&pool)
            .await
            .expect("moved");
        change(
            &world,
            Method::POST,
            &format!("{}:ping", target(&made)),
            json!({}),
        )
        .await;
        let tried = |all: &[Value]| all[0]["attempts"].as_u64() > Some(0) && all[0]["error"] != "";
        let listed = deliveries(&world, &made, tried).await;
        let got = listed[0]["error"].as_str().expect("text");
        // a machine whose resolver does not know the name calls nobody either
        assert!(
            got == error || url.contains("localdomain") && got.contains("connection"),
            "{url}: {got}"
        );
        sqlx::query("DELETE FROM webhook_deliveries")
            .execute(&pool)
            .await
            .expect("gone");
    }
    assert!(receiver.arrived.try_recv().is_err(), "nobody was called");
}

#[tokio::test]
async fn an_organisations_webhook_gets_the_events_of_all_of_its_projects() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let mut own = Receiver::start().await;
    let pool = world.pool().await;
    sqlx::query(
        "INSERT INTO organisation_memberships (principal_id, organisation_id, role)
         SELECT id, $1, 'owner' FROM principals WHERE name = 'user:demo'
         ON CONFLICT (principal_id, organisation_id) DO UPDATE SET role = 'owner'",
    )
    .bind(world.seeded.organisation_id)
    .execute(&pool)
    .await
    .expect("an owner");
    let other = Uuid::now_v7();
    sqlx::query("INSERT INTO projects (id, organisation_id, slug, display_name) VALUES ($1, $2, 'other', '')")
        .bind(other)
        .bind(world.seeded.organisation_id)
        .execute(&pool)
        .await
        .expect("project");
    let collection = format!(
        "/api/v1/organisations/{}/webhooks",
        world.seeded.organisation_id
    );
    let (status, made) = change(
        &world,
        Method::POST,
        &collection,
        json!({ "url": receiver.url }),
    )
    .await;
    assert_eq!(status, 200, "{made}");
    create(&world, json!({ "url": own.url })).await;
    let elsewhere = Event {
        project_id: other.to_string(),
        ..event(&world, "allocation.active", Uuid::now_v7(), 1)
    };
    world.log.append(elsewhere);
    world
        .log
        .append(event(&world, "allocation.active", Uuid::now_v7(), 1));
    let mut projects = [
        receiver.next().await.json()["data"]["project_id"].clone(),
        receiver.next().await.json()["data"]["project_id"].clone(),
    ];
    projects.sort_by_key(ToString::to_string);
    let mut expected = [json!(other), json!(world.seeded.project_id)];
    expected.sort_by_key(ToString::to_string);
    assert_eq!(projects, expected);
    let alone = own.next().await.json();
    assert_eq!(
        alone["data"]["project_id"],
        world.seeded.project_id.to_string()
    );
    deliveries(&world, &made, all_in("delivered", 2)).await;
    assert!(own.arrived.try_recv().is_err(), "only its own project's");
}

/// One that never answers, and is known for it, has one attempt under way; the others have places.
#[tokio::test]
async fn a_dead_endpoint_keeps_nobody_waiting() {
    let world = World::start_with(|config, _| {
        config.webhooks.allow_insecure = true;
        config.webhooks.poll_seconds = 0.05;
        // longer than the test
        config.webhooks.timeout_seconds = 600.0;
        config.webhooks.max_concurrent = 2;
    })
    .await;
    let mut dead = Receiver::start().await;
    let mut alive = Receiver::start().await;
    let silent = format!("{}silent", dead.url);
    create(&world, json!({ "url": silent })).await;
    sqlx::query("UPDATE webhooks SET failing_time = clock_timestamp()")
        .execute(&world.pool().await)
        .await
        .expect("known for it");
    for _ in 0..5 {
        world
            .log
            .append(event(&world, "allocation.active", Uuid::now_v7(), 1));
    }
    dead.next().await;
    let made = create(&world, json!({ "url": alive.url })).await;
    for _ in 0..5 {
        world
            .log
            .append(event(&world, "allocation.active", Uuid::now_v7(), 1));
    }
    for _ in 0..5 {
        alive.next().await;
    }
    deliveries(&world, &made, all_in("delivered", 5)).await;
    assert!(dead.arrived.try_recv().is_err(), "one at a time");
}

#[tokio::test]
async fn nothing_is_delivered_for_a_project_that_was_closed() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    receiver.will_answer(&[500; 500]);
    let made = create(&world, json!({ "url": receiver.url })).await;
    let object = Uuid::now_v7();
    world
        .log
        .append(event(&world, "allocation.releasing", object, 1));
    world
        .log
        .append(event(&world, "allocation.released", object, 2));
    receiver.next().await;
    let pool = world.pool().await;
    until_position(&pool, 2).await;
    let close = format!("/api/v1/projects/{}:close", world.seeded.project_id);
    let (status, body) = change(&world, Method::POST, &close, json!({})).await;
    assert_eq!(status, 200, "{body}");
    let left = async || -> (String, String, i64, i64) {
        sqlx::query_as(
            "SELECT w.state, w.disable_reason, count(d.id), count(d.id) FILTER (WHERE d.state = 'failed')
               FROM webhooks w LEFT JOIN webhook_deliveries d ON d.webhook_id = w.id GROUP BY w.id",
        )
        .fetch_one(&pool)
        .await
        .expect("row")
    };
    let ended = (
        "disabled".to_owned(),
        "The project was closed.".to_owned(),
        2,
        2,
    );
    assert_eq!(left().await, ended);
    world
        .log
        .append(event(&world, "allocation.failed", object, 3));
    until_position(&pool, 3).await;
    assert_eq!(left().await, ended);
    let enable = json!({ "disabled": false });
    let (status, body) = change(&world, Method::PATCH, &target(&made), enable).await;
    assert_ne!(status, 200, "{body}");
    assert_eq!(left().await, ended);
}

/// The command line takes the types that the API takes, and names them.
#[test]
fn the_command_line_names_every_event_type() {
    let command = gpuaas_cli::command();
    let of_webhooks = command.find_subcommand("webhook").expect("webhook");
    for verb in ["create", "update"] {
        let verb = of_webhooks.find_subcommand(verb).expect("a verb");
        let mut all = verb.get_arguments();
        let events = all.find(|one| one.get_id() == "events").expect("--event");
        let named = events.get_possible_values();
        let named: Vec<&str> = named
            .iter()
            .map(clap::builder::PossibleValue::get_name)
            .collect();
        let known = EVENT_TYPES.iter().map(|known| known.name);
        let known: Vec<&str> = std::iter::once("*").chain(known).collect();
        assert_eq!(named, known);
    }
}
