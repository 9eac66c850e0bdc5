//! Every change that the gateway makes itself is made here, and the row that each leaves in the audit trail has the digests of
//! what was there before it and of what is there after it (P10).
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gpuaas_proto::gpuaas::identity::v1 as pb;
use prost::Message as _;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::scim::Provider;
use crate::world::{ISSUER, World};

const VM: Uuid = Uuid::from_u128(0x71);
const PUBLIC_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIL3zNyc/uTro+mLlZ4AqPo1T385rJNs7U9bsj3tJph2q x";
/// Gives a short token and changes nothing.
const EXCHANGE: &str = "api_key.exchange";

/// A call that must do, by a method and a target as in `"POST /api/v1/projects"`.
async fn done(world: &World, who: &str, call: &str, body: Value) -> Value {
    let (method, target) = call.split_once(' ').expect("a method and a target");
    let method: Method = method.parse().expect("a method");
    let (status, answer) = world.send(who, method, target, body).await;
    assert_eq!(status, 200, "{who} {call}: {answer}");
    answer
}

fn id(made: &Value) -> &str {
    made["id"].as_str().expect("an id")
}

/// A row of the audit trail.
#[derive(sqlx::FromRow)]
struct Row {
    action: String,
    resource_id: String,
    before: Option<String>,
    after: Option<String>,
}

async fn rows(world: &World) -> Vec<Row> {
    sqlx::query_as(
        "SELECT action, resource_id, detail->>'before_digest' AS before, detail->>'after_digest' AS after
           FROM audit WHERE detail->>'outcome' IS DISTINCT FROM 'denied' ORDER BY seq",
    )
    .fetch_all(&world.pool().await)
    .await
    .expect("audit rows")
}

async fn tenancy(provider: &Provider) {
    let world = &provider.world;
    let acme = json!({ "slug": "acme", "owner": "user:olga" });
    let acme = done(world, "admin", "POST /api/v1/admin/organisations", acme).await;
    let (acme, name) = (id(&acme), json!({ "display_name": "Acme" }));
    let at = format!("PATCH /api/v1/organisations/{acme}");
    done(world, "olga", &at, name.clone()).await;
    let forbid = json!({ "terminals_disabled": true });
    done(world, "olga", &format!("{at}/guardrails"), forbid).await;
    let admin = format!("POST /api/v1/admin/organisations/{acme}");
    let why = json!({ "reason": "unpaid" });
    done(world, "admin", &format!("{admin}:suspend"), why.clone()).await;
    done(world, "admin", &format!("{admin}:resume"), json!({})).await;

    let project = json!({ "organisation_id": acme, "slug": "training" });
    let project = done(world, "olga", "POST /api/v1/projects", project).await;
    let project = format!("/api/v1/projects/{}", id(&project));
    done(world, "olga", &format!("PATCH {project}"), name).await;
    done(world, "olga", &format!("POST {project}:suspend"), why).await;
    for change in ["resume", "close"] {
        done(
            world,
            "olga",
            &format!("POST {project}:{change}"),
            json!({}),
        )
        .await;
    }
    done(world, "admin", &format!("{admin}:close"), json!({})).await;
}

async fn people(provider: &Provider, organisation: &str, project: &str) {
    let world = &provider.world;
    for group in [organisation, project] {
        let mia = json!({ "principal": "user:mia", "role": "viewer" });
        let mia = done(world, "admin", &format!("POST {group}/members"), mia).await;
        let mia = format!("{group}/members/{}", mia["member_id"].as_str().expect("id"));
        let role = json!({ "role": "member" });
        done(world, "demo", &format!("PATCH {mia}"), role).await;
        if group == project {
            let grants = format!("{project}/allocation-grants");
            let grant =
                json!({ "allocation_id": VM, "principal": "user:mia", "permission": "terminal" });
            let grant = done(world, "demo", &format!("POST {grants}"), grant).await;
            let at = format!("DELETE {grants}/{}", id(&grant));
            done(world, "demo", &at, Value::Null).await;
        }
        done(world, "demo", &format!("DELETE {mia}"), Value::Null).await;

        let mail = json!({ "email": "new@example.com", "role": "viewer" });
        let invite = format!("POST {group}/invitations");
        let invited = done(world, "demo", &invite, mail.clone()).await;
        let at = format!("POST /api/v1/invitations/{}:revoke", id(&invited));
        done(world, "demo", &at, json!({})).await;
        let invited = done(world, "demo", &invite, mail).await;
        let token = json!({ "token": invited["token"] });
        done(world, "new", "POST /api/v1/invitations:accept", token).await;
    }
    let zoe = json!({ "name": "user:zoe", "issuer": ISSUER, "subject": "zoe" });
    let zoe = done(world, "admin", "POST /api/v1/admin/principals", zoe).await;
    let at = format!("POST /api/v1/admin/principals/{}", id(&zoe));
    for (change, body) in [
        ("disable", json!({ "reason": "left" })),
        ("enable", json!({})),
        ("setPlatformRole", json!({ "platform_role": "auditor" })),
    ] {
        done(world, "admin", &format!("{at}:{change}"), body).await;
    }
}

async fn programs(provider: &Provider, organisation: &str, project: &str) {
    let world = &provider.world;
    let accounts = format!("{project}/service-accounts");
    let account = json!({ "slug": "ci", "role": "viewer" });
    let account = done(world, "demo", &format!("POST {accounts}"), account).await;
    let account = format!("{accounts}/{}", id(&account));
    for change in ["disable", "enable"] {
        done(
            world,
            "demo",
            &format!("POST {account}:{change}"),
            json!({}),
        )
        .await;
    }
    let key = json!({ "display_name": "ci", "scopes": ["read"] });
    let key = done(world, "demo", &format!("POST {account}/api-keys"), key).await;
    let at = format!("POST {account}/api-keys/{}", id(&key));
    for change in ["rotate", "disable"] {
        done(world, "demo", &format!("{at}:{change}"), json!({})).await;
    }
    done(world, "demo", &format!("DELETE {account}"), Value::Null).await;

    for group in [organisation, project] {
        let hook = json!({ "url": "https://hooks.example.com/secret", "event_types": ["allocation.active"] });
        let hook = done(world, "demo", &format!("POST {group}/webhooks"), hook).await;
        let hook = format!("/api/v1/webhooks/{}", id(&hook));
        let text = json!({ "description": "builds" });
        done(world, "demo", &format!("PATCH {hook}"), text).await;
        let rotate = format!("POST {hook}:rotateSecret");
        done(world, "demo", &rotate, json!({})).await;
        let ping = done(world, "demo", &format!("POST {hook}:ping"), json!({})).await;
        sqlx::query("UPDATE webhook_deliveries SET state = 'failed'")
            .execute(&world.pool().await)
            .await
            .expect("failed");
        let again = format!("POST {hook}/deliveries/{}:redeliver", id(&ping));
        done(world, "demo", &again, json!({})).await;
        done(world, "demo", &format!("DELETE {hook}"), Value::Null).await;
    }
    for keys in ["/api/v1/ssh-keys", &format!("{project}/ssh-keys")] {
        let key = json!({ "name": "laptop", "public_key": PUBLIC_KEY });
        let key = done(world, "demo", &format!("POST {keys}"), key).await;
        let at = format!("DELETE {keys}/{}", id(&key));
        done(world, "demo", &at, Value::Null).await;
    }
}

async fn directory(provider: &Provider, organisation: &str) {
    let world = &provider.world;
    let settings = format!(
        "PUT /api/v1/admin/organisations/{}/scim",
        provider.organisation()
    );
    for attribute in ["external_id", "user_name"] {
        let body = json!({ "issuer": ISSUER, "subject_attribute": attribute });
        done(world, "admin", &settings, body).await;
    }
    let ann = provider.user("ann").await;
    let name = json!({ "op": "replace", "path": "displayName", "value": "Ann" });
    assert_eq!(
        provider.patch(&format!("/Users/{ann}"), name).await.status,
        200
    );
    let group = provider.group("g", &[]).await;
    let mapping = provider.map(&group, "viewer").await;
    let members = json!({ "op": "add", "path": "members", "value": [{ "value": ann }] });
    let at = format!("/Groups/{group}");
    assert_eq!(provider.patch(&at, members).await.status, 200);
    let mapping = format!("DELETE {organisation}/scim/groups/{group}/mappings/{mapping}");
    done(world, "demo", &mapping, Value::Null).await;
    for path in [at, format!("/Users/{ann}")] {
        let said = provider.scim(Method::DELETE, &path, Value::Null).await;
        assert_eq!(said.status, 204, "{path}");
    }
}

#[tokio::test]
async fn p10_every_change_has_digests_of_what_was_and_of_what_is() {
    let provider = Provider::start().await;
    let world = &provider.world;
    world.users(&["olga", "mia"]).await;
    let organisation = format!("/api/v1/organisations/{}", provider.organisation());
    let project = format!("/api/v1/projects/{}", world.seeded.project_id);
    tenancy(&provider).await;
    people(&provider, &organisation, &project).await;
    programs(&provider, &organisation, &project).await;
    directory(&provider, &organisation).await;

    let rows = rows(world).await;
    for row in &rows {
        let what = format!("{} {:?} {:?}", row.action, row.before, row.after);
        for digest in [&row.before, &row.after].into_iter().flatten() {
            let is_hex = digest.bytes().all(|one| one.is_ascii_hexdigit());
            assert!(digest.len() == 64 && is_hex, "{what}");
        }
        let (_, verb) = row.action.split_once('.').expect("a thing and a verb");
        match verb {
            "create" | "add" | "ping" => assert!(row.before.is_none() && row.after.is_some()),
            "delete" | "remove" => assert!(row.before.is_some() && row.after.is_none(), "{what}"),
            // the first of them makes it, or registers who accepts
            "put" | "accept" => assert!(row.after.is_some() && row.before != row.after, "{what}"),
            _ => assert!(
                row.before.is_some() && row.after.is_some() && row.before != row.after,
                "{what}"
            ),
        }
    }

    // all that the gateway answers itself and that changes something was done
    let routes = gpuaas_gateway::routes().expect("served");
    let changes = routes.routes().iter().filter(|route| {
        route.service == gpuaas_gateway::contract::route::GATEWAY
            && route.http_method != http::Method::GET
            && route.access.action != EXCHANGE
    });
    let changes: BTreeSet<&str> = changes.map(|route| route.access.action.as_str()).collect();
    let seen: BTreeSet<&str> = rows.iter().map(|row| row.action.as_str()).collect();
    let undone: Vec<_> = changes.difference(&seen).collect();
    assert!(undone.is_empty(), "{undone:?}");

    // what one change left is what the next one finds
    let mut left: BTreeMap<&str, &str> = BTreeMap::new();
    for row in rows.iter().filter(|row| {
        row.action.starts_with("organisation.") || row.action.starts_with("principal.")
    }) {
        if let (Some(before), Some(known)) = (&row.before, left.get(row.resource_id.as_str())) {
            assert_eq!(before, known, "{}", row.action);
        }
        if let Some(after) = &row.after {
            left.insert(&row.resource_id, after);
        }
    }
}

/// What the code of the services says.
fn sources() -> String {
    let services = Path::new(env!("CARGO_MANIFEST_DIR")).join("../services");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(services)
        .expect("the services")
        .map(|service| service.expect("a service").path().join("src"))
        .collect();
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                text.push_str(&std::fs::read_to_string(&path).expect("text"));
            }
        }
    }
    text
}

/// This one holds that a row is written at all. That it has its digests is held by each service's own tests: a development build
/// refuses a row without.
#[test]
fn p10_every_change_of_the_other_services_is_recorded_by_its_action() {
    let sources = sources();
    let routes = gpuaas_gateway::routes().expect("served");
    let changes = routes.routes().iter().filter(|route| {
        route.service != gpuaas_gateway::contract::route::GATEWAY
            && route.http_method != http::Method::GET
    });
    let mut count = 0;
    for route in changes {
        let method = route.method.name();
        // of rollouts the records say what was done, and one right is for all of it
        let action = match method {
            "CreateAgentRollout" => "agent_rollout.create",
            "PauseAgentRollout" => "agent_rollout.pause",
            "ResumeAgentRollout" => "agent_rollout.resume",
            "AbortAgentRollout" => "agent_rollout.abort",
            "RollbackAgentRollout" => "agent_rollout.rollback",
            _ => &route.access.action,
        };
        let written = format!("\"{action}\"");
        assert!(
            sources.contains(&written),
            "{method}: no record of {action}"
        );
        count += 1;
    }
    assert!(count > 50, "{count}");
}

#[tokio::test]
async fn p10_a_digest_is_that_of_the_message_which_the_api_shows() {
    let world = World::start().await;
    let key = json!({ "name": "laptop", "public_key": PUBLIC_KEY });
    let shown = done(&world, "demo", "POST /api/v1/ssh-keys", key).await;
    let text = |name: &str| shown[name].as_str().expect("text").to_owned();
    let message = pb::SshKey {
        id: text("id"),
        name: text("name"),
        public_key: text("public_key"),
        fingerprint: text("fingerprint"),
        create_time: Some(text("create_time").parse().expect("a time")),
        project_id: String::new(),
    };
    let rows = rows(&world).await;
    let row = rows.iter().find(|row| row.action == "ssh_key.create");
    let digest: String = sqlx::query_scalar("SELECT encode(sha256($1), 'hex')")
        .bind(message.encode_to_vec())
        .fetch_one(&world.pool().await)
        .await
        .expect("a digest");
    assert_eq!(row.expect("a row").after, Some(digest));
}
