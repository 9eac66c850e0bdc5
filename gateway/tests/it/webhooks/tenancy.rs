//! Events of organisations, projects and who may do what in them: who gets them, in which order, and what they never tell.
use gpuaas_dev::until::until;
use gpuaas_proto::gpuaas::internal::events::v1::Event;
use prost_types::value::Kind;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::PgPool;

use super::receiver::Receiver;
use super::{TIMEOUT, all_in, create, event, target, world};
use crate::world::{World, reason};

/// Takes events, and is not there.
const AWAY: &str = "https://hooks.example.com/";

/// A gateway, an organisation of `olga` and a project of it.
async fn start() -> (World, String, String) {
    let world = world().await;
    world.users(&["olga", "mona"]).await;
    let organisation = world.organisation("acme", "olga").await;
    let project = world.project(&organisation, "training", "olga").await;
    (world, organisation, project)
}

async fn hook(world: &World, of: &str, body: Value) -> Value {
    world
        .made("olga", &format!("/api/v1/{of}/webhooks"), body)
        .await
}

/// What was queued for a webhook: types and bodies, in their order.
async fn queued(pool: &PgPool, webhook: &Value) -> Vec<(String, Value)> {
    let rows: Vec<(String, String)> = sqlx::query_as(
        "SELECT event_type, body FROM webhook_deliveries WHERE webhook_id = $1::uuid ORDER BY seq",
    )
    .bind(webhook["id"].as_str().expect("id"))
    .fetch_all(pool)
    .await
    .expect("deliveries");
    let read = |(event_type, body): (String, String)| {
        let body: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(body["type"], event_type);
        (event_type, body["data"].clone())
    };
    rows.into_iter().map(read).collect()
}

fn types(events: &[(String, Value)]) -> Vec<&str> {
    let all = events.iter();
    all.map(|(event_type, _)| event_type.as_str()).collect()
}

#[tokio::test]
async fn changes_of_a_project_reach_its_webhooks_and_those_of_its_organisation_in_order() {
    let world = world().await;
    world.users(&["olga"]).await;
    let organisation = world.organisation("acme", "olga").await;
    let (mut of_all, mut of_one) = (Receiver::start().await, Receiver::start().await);
    let whole = format!("organisations/{organisation}");
    let made = hook(&world, &whole, json!({ "url": of_all.url })).await;
    let project = world.project(&organisation, "training", "olga").await;
    let first = of_all.next().await;
    assert_eq!(first.made_by(made["secret"].as_str().expect("secret")), 1);
    let created = first.json();
    assert_eq!(
        (&created["type"], &created["data"]["project_id"]),
        (&json!("project.created"), &json!(project)),
        "{created}"
    );
    assert_eq!(
        (&created["data"]["slug"], &created["data"]["actor"]),
        (&json!("training"), &json!("user:olga")),
        "{created}"
    );

    let own = hook(
        &world,
        &format!("projects/{project}"),
        json!({ "url": of_one.url }),
    )
    .await;
    let path = format!("/api/v1/projects/{project}");
    let rename = json!({ "display_name": "Deep" });
    let (status, body) = world.send("olga", Method::PATCH, &path, rename).await;
    assert_eq!(status, 200, "{body}");
    // what changes nothing is no event
    for _ in 0..2 {
        let why = json!({ "reason": "not paid" });
        world.made("admin", &format!("{path}:suspend"), why).await;
    }
    for _ in 0..2 {
        world
            .made("admin", &format!("{path}:resume"), json!({}))
            .await;
    }
    for receiver in [&mut of_all, &mut of_one] {
        let renamed = receiver.next().await.json();
        assert_eq!(renamed["type"], "project.updated", "{renamed}");
        assert_eq!(renamed["data"]["display_name"], "Deep");
        let suspended = receiver.next().await.json();
        assert_eq!(suspended["type"], "project.suspended", "{suspended}");
        let data = &suspended["data"];
        assert_eq!(
            [&data["state"], &data["state_reason"], &data["actor"]],
            [&json!("suspended"), &json!("not paid"), &json!("operator")],
            "who runs the platform has no name: {suspended}"
        );
        assert_eq!(data["suspended_by_platform"], true);
        assert_eq!(receiver.next().await.json()["type"], "project.resumed");
    }
    let closed = world
        .made("olga", &format!("{path}:close"), json!({}))
        .await;
    assert_eq!(closed["state"], "closed");
    assert_eq!(of_all.next().await.json()["type"], "project.closed");
    let pool = world.pool().await;
    assert_eq!(
        types(&queued(&pool, &own).await),
        ["project.updated", "project.suspended", "project.resumed"],
        "a project's own webhooks end with it"
    );
}

#[tokio::test]
async fn members_invitations_accounts_and_keys_are_told_to_their_project_without_secrets() {
    let (world, organisation, project) = start().await;
    let other = world.project(&organisation, "other", "olga").await;
    let base = format!("projects/{project}");
    let all = hook(&world, &base, json!({ "url": AWAY })).await;
    let some = json!({ "url": AWAY, "event_types": ["api_key.created"] });
    let some = hook(&world, &base, some).await;
    let elsewhere = hook(&world, &format!("projects/{other}"), json!({ "url": AWAY })).await;
    let path = format!("/api/v1/{base}");

    let member = world.member(&project, "mona", "viewer").await;
    let one = format!("{path}/members/{member}");
    let (status, body) = world
        .send("olga", Method::PATCH, &one, json!({ "role": "member" }))
        .await;
    assert_eq!(status, 200, "{body}");
    let (status, body) = world.send("olga", Method::DELETE, &one, Value::Null).await;
    assert_eq!(status, 200, "{body}");

    let invite = json!({ "email": "new@example.com", "role": "viewer" });
    let invited = world
        .made("olga", &format!("{path}/invitations"), invite.clone())
        .await;
    let revoke = format!(
        "/api/v1/invitations/{}:revoke",
        invited["id"].as_str().expect("id")
    );
    world.made("olga", &revoke, json!({})).await;
    let again = world
        .made("olga", &format!("{path}/invitations"), invite)
        .await;
    let accept = json!({ "token": again["token"] });
    let accepted = world
        .made("mona", "/api/v1/invitations:accept", accept)
        .await;
    assert_eq!(accepted["accepted_by"], "user:mona");

    let accounts = format!("{path}/service-accounts");
    let account = json!({ "slug": "ci", "role": "member" });
    let account = world.made("olga", &accounts, account).await;
    let account = format!("{accounts}/{}", account["id"].as_str().expect("id"));
    let keys = format!("{account}/api-keys");
    let key = world
        .made("olga", &keys, json!({ "scopes": ["read"] }))
        .await;
    let rotate = format!("{keys}/{}:rotate", key["id"].as_str().expect("id"));
    let newer = world.made("olga", &rotate, json!({})).await;
    let disable = format!("{keys}/{}:disable", newer["id"].as_str().expect("id"));
    // what changes nothing is no event
    for _ in 0..2 {
        world.made("olga", &disable, json!({})).await;
    }
    for verb in ["disable", "disable", "enable", "enable"] {
        world
            .made("olga", &format!("{account}:{verb}"), json!({}))
            .await;
    }
    let (status, body) = world
        .send("olga", Method::DELETE, &account, Value::Null)
        .await;
    assert_eq!(status, 200, "{body}");

    let pool = world.pool().await;
    let events = queued(&pool, &all).await;
    let expected = [
        "project_member.added",
        "project_member.updated",
        "project_member.removed",
        "invitation.created",
        "invitation.revoked",
        "invitation.created",
        "invitation.accepted",
        "project_member.added",
        "service_account.created",
        "api_key.created",
        "api_key.rotated",
        "api_key.disabled",
        "service_account.disabled",
        "service_account.enabled",
        "service_account.deleted",
    ];
    assert_eq!(types(&events), expected);
    let data = |index: usize| &events[index].1;
    assert_eq!(data(0)["actor"], "operator", "an administrator added her");
    assert_eq!(
        [
            &data(1)["member_id"],
            &data(1)["role"],
            &data(1)["previous_role"]
        ],
        [&json!(member), &json!("member"), &json!("viewer")]
    );
    assert_eq!(
        [
            &data(2)["role"],
            &data(2)["previous_role"],
            &data(2)["actor"]
        ],
        [&json!("unspecified"), &json!("member"), &json!("user:olga")]
    );
    assert_eq!(data(4)["state"], "revoked");
    assert_eq!(
        [&data(6)["accepted_by"], &data(7)["principal"]],
        [&json!("user:mona"), &json!("user:mona")]
    );
    assert_eq!(
        [&data(10)["api_key_id"], &data(10)["replaces"]],
        [&newer["id"], &key["id"]]
    );
    assert_eq!(data(12)["disabled"], true);
    let whole: String = events.iter().map(|(_, data)| data.to_string()).collect();
    for secret in [
        &invited["token"],
        &again["token"],
        &key["key"],
        &newer["key"],
    ] {
        let secret = secret.as_str().expect("a secret");
        assert!(secret.len() > 20 && !whole.contains(secret), "{whole}");
    }
    assert_eq!(types(&queued(&pool, &some).await), ["api_key.created"]);
    let told = queued(&pool, &elsewhere).await;
    assert!(told.is_empty(), "another project's: {told:?}");
}

/// What the owners disabled and an administrator disables as well is another thing to the project: its owners cannot enable it.
#[tokio::test]
async fn a_service_account_that_an_administrator_disables_twice_is_told_of_once() {
    let (world, _, project) = start().await;
    let base = format!("projects/{project}");
    let all = hook(&world, &base, json!({ "url": AWAY })).await;
    let accounts = format!("/api/v1/{base}/service-accounts");
    let account = json!({ "slug": "ci", "role": "member" });
    let account = world.made("olga", &accounts, account).await;
    let id = account["id"].as_str().expect("id");
    let own = format!("{accounts}/{id}");
    let of_platform = format!("/api/v1/admin/principals/{id}");
    for (who, path, verb) in [
        ("admin", &of_platform, "disable"),
        ("admin", &of_platform, "disable"),
        ("admin", &of_platform, "enable"),
        ("admin", &of_platform, "enable"),
        ("olga", &own, "disable"),
        ("admin", &of_platform, "disable"),
        ("admin", &of_platform, "disable"),
    ] {
        world.made(who, &format!("{path}:{verb}"), json!({})).await;
    }
    let told = queued(&world.pool().await, &all).await;
    let by_platform = |(event_type, data): &(String, Value)| {
        let flag = data["disabled_by_platform"].as_bool();
        (event_type.clone(), flag.expect("a flag"))
    };
    let told: Vec<(String, bool)> = told.iter().map(by_platform).collect();
    let expected = [
        ("service_account.created", false),
        ("service_account.disabled", true),
        ("service_account.enabled", false),
        ("service_account.disabled", false),
        ("service_account.disabled", true),
    ];
    assert_eq!(
        told,
        expected.map(|(event_type, by)| (event_type.to_owned(), by))
    );
}

#[tokio::test]
async fn what_an_organisation_keeps_to_itself_is_not_told_to_its_projects() {
    let (world, organisation, project) = start().await;
    let whole = format!("organisations/{organisation}");
    let of_all = hook(&world, &whole, json!({ "url": AWAY })).await;
    let of_one = hook(
        &world,
        &format!("projects/{project}"),
        json!({ "url": AWAY }),
    )
    .await;
    let path = format!("/api/v1/{whole}");
    let member = json!({ "principal": "user:mona", "role": "billing" });
    world
        .made("admin", &format!("{path}/members"), member)
        .await;
    let rename = json!({ "display_name": "Acme Group" });
    let (status, body) = world.send("olga", Method::PATCH, &path, rename).await;
    assert_eq!(status, 200, "{body}");
    let admin = format!("/api/v1/admin/{whole}");
    // what changes nothing is no event
    for _ in 0..2 {
        let why = json!({ "reason": "not paid" });
        world.made("admin", &format!("{admin}:suspend"), why).await;
    }
    for _ in 0..2 {
        world
            .made("admin", &format!("{admin}:resume"), json!({}))
            .await;
    }

    let pool = world.pool().await;
    let told = queued(&pool, &of_all).await;
    assert_eq!(
        types(&told),
        [
            "organisation_member.added",
            "organisation.updated",
            "organisation.suspended",
            "organisation.resumed"
        ]
    );
    assert_eq!(told[0].1["organisation_id"], organisation);
    let told = queued(&pool, &of_one).await;
    assert_eq!(
        types(&told),
        [
            "organisation.updated",
            "organisation.suspended",
            "organisation.resumed"
        ]
    );
    assert_eq!(told[1].1["state_reason"], "not paid");
    let whole = json!(told.iter().map(|(_, data)| data).collect::<Vec<_>>()).to_string();
    assert!(
        !whole.contains("user:"),
        "who is in the organisation: {whole}"
    );
}

#[tokio::test]
async fn a_refused_change_is_no_event_and_a_repeated_one_is_one() {
    let (world, _, project) = start().await;
    let base = format!("projects/{project}");
    let made = hook(&world, &base, json!({ "url": AWAY })).await;
    let path = format!("/api/v1/{base}");
    let stale = json!({ "display_name": "Deep", "etag": "0" });
    let (status, body) = world.send("olga", Method::PATCH, &path, stale).await;
    assert_eq!((status, reason(&body)), (409, "ETAG_STALE"));
    let pool = world.pool().await;
    assert!(queued(&pool, &made).await.is_empty());
    let suspend = async || {
        let request = world
            .http
            .post(world.url(&format!("{path}:suspend")))
            .bearer_auth(world.token("olga"))
            .header("x-idempotency-key", "once")
            .json(&json!({ "reason": "later" }));
        crate::world::answer(request.send().await.expect("answer")).await
    };
    for _ in 0..2 {
        let (status, body) = suspend().await;
        assert_eq!(status, 200, "{body}");
    }
    assert_eq!(types(&queued(&pool, &made).await), ["project.suspended"]);
}

#[tokio::test]
async fn a_change_waits_for_a_webhook_that_is_being_deleted_and_is_made() {
    let (world, _, project) = start().await;
    let base = format!("projects/{project}");
    let gone = hook(&world, &base, json!({ "url": AWAY })).await;
    let stays = hook(&world, &base, json!({ "url": AWAY })).await;
    let pool = world.pool().await;
    let mut deletion = pool.begin().await.expect("transaction");
    sqlx::query("DELETE FROM webhooks WHERE id = $1::uuid")
        .bind(gone["id"].as_str().expect("id"))
        .execute(&mut *deletion)
        .await
        .expect("deleted");
    let path = format!("/api/v1/{base}");
    let rename = json!({ "display_name": "Deep" });
    let change = world.send("olga", Method::PATCH, &path, rename);
    let end = async {
        until("the change to wait", TIMEOUT, async || {
            let waiting: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM pg_stat_activity
                  WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%FROM webhooks w%'",
            )
            .fetch_one(&pool)
            .await
            .expect("count");
            (waiting > 0).then_some(())
        })
        .await;
        deletion.commit().await.expect("committed");
    };
    let ((status, body), ()) = tokio::join!(change, end);
    assert_eq!(status, 200, "{body}");
    assert_eq!(types(&queued(&pool, &stays).await), ["project.updated"]);
    let (status, _) = world.get("olga", &target(&gone)).await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn an_event_that_is_not_taken_is_delivered_again_with_its_id() {
    let (world, _, project) = start().await;
    let mut receiver = Receiver::start().await;
    let base = format!("projects/{project}");
    let made = hook(&world, &base, json!({ "url": receiver.url })).await;
    receiver.will_answer(&[500]);
    let rename = json!({ "display_name": "Deep" });
    let (status, body) = world
        .send("olga", Method::PATCH, &format!("/api/v1/{base}"), rename)
        .await;
    assert_eq!(status, 200, "{body}");
    let (first, second) = (receiver.next().await, receiver.next().await);
    assert_eq!((&first.id, &first.body), (&second.id, &second.body));
    let path = format!("{}/deliveries", target(&made));
    let listed = until("the delivery", TIMEOUT, async || {
        let (_, body) = world.get("olga", &path).await;
        let all = body["deliveries"].as_array().expect("a list").clone();
        all_in("delivered", 1)(&all).then_some(all)
    })
    .await;
    assert_eq!(
        (&listed[0]["event_type"], &listed[0]["object_id"]),
        (&json!("project.updated"), &json!(project))
    );
}

#[tokio::test]
async fn a_changed_limit_reaches_the_webhooks_of_its_project() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let types = json!(["quota.updated", "allocation.active"]);
    let body = json!({ "url": receiver.url, "event_types": types });
    create(&world, body).await;
    let project = world.seeded.project_id;
    let value = |kind: Kind| prost_types::Value { kind: Some(kind) };
    let fields = [
        ("quota", value(Kind::StringValue("allocations".to_owned()))),
        ("limit", value(Kind::NumberValue(5.0))),
        ("previous_limit", value(Kind::NumberValue(256.0))),
    ];
    world.log.append(Event {
        data: Some(prost_types::Struct {
            fields: fields.map(|(name, value)| (name.to_owned(), value)).into(),
        }),
        ..event(&world, "quota.updated", project, 1)
    });
    let told = receiver.next().await.json();
    assert_eq!(told["type"], "quota.updated", "{told}");
    assert_eq!(
        told["data"],
        json!({
            "project_id": project, "revision": "1", "quota": "allocations", "sku": "", "limit": 5, "previous_limit": 256,
        })
    );
}
