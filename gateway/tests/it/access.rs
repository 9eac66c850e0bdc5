//! Every public method by every kind of caller, against the table that people review: `tests/data/access.txt`.
use std::collections::{BTreeMap, BTreeSet};

use gpuaas_common::id::IdGen;
use gpuaas_gateway::auth::api_keys::ApiKey;
use gpuaas_gateway::auth::short_tokens::issuer_of;
use gpuaas_gateway::contract::access::behavior_of;
use gpuaas_gateway::contract::route::{Body, Route};
use gpuaas_gateway::store::Scope;
use gpuaas_gateway::store::{self, NewApiKey, NewServiceAccount, Role, Seeded};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use reqwest::Method;
use serde_json::{Map, Value, json};
use sqlx::PgPool;
use uuid::Uuid;

use crate::stand_in::FIELD;
use crate::world::{CELL, ISSUER, World, answer, detail, field, reason};

/// What services the table covers.
const SERVICES: [&str; 5] = [
    "allocation",
    "billing",
    "image-catalog",
    "inventory",
    "scheduler",
];
const TERMINAL: &str = "terminal-gateway";
const TABLE: &str = include_str!("../data/access.txt");
/// What requests name; there is an invitation and a webhook of this id.
const SOME: Uuid = Uuid::from_u128(7);
/// Any that is taken.
const PUBLIC_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIL3zNyc/uTro+mLlZ4AqPo1T385rJNs7U9bsj3tJph2q x";
/// Fields that name what who may not see it does not find.
const HIDDEN: [&str; 4] = [
    "project_id",
    "organisation_id",
    "invitation_id",
    "webhook_id",
];
/// The columns of the table.
const CALLERS: [&str; 13] = [
    "nobody",
    "stranger",
    "viewer",
    "member",
    "billing",
    "owner",
    "key",
    "org-member",
    "org-billing",
    "org-owner",
    "auditor",
    "operator",
    "admin",
];

/// Registers who is in the table, and gives what each calls with.
async fn register(world: &World) -> BTreeMap<&'static str, Option<String>> {
    let pool = world.pool().await;
    let ids = IdGen::new(CELL);
    let mut credentials = BTreeMap::from([("nobody", None)]);
    for name in CALLERS {
        if matches!(name, "nobody" | "key") {
            continue;
        }
        let platform = matches!(name, "auditor" | "operator" | "admin").then_some(name);
        let id = ids.next();
        sqlx::query(
            "INSERT INTO principals (id, name, issuer, subject, display_name, platform_role)
             VALUES ($1, 'user:t-' || $2, $3, 't-' || $2, '', $4)",
        )
        .bind(id)
        .bind(name)
        .bind(ISSUER)
        .bind(platform)
        .execute(&pool)
        .await
        .expect("registered");
        if let Some(role) = Role::parse(name) {
            join(&pool, id, world.seeded.project_id, role).await;
        }
        if let Some(role) = name.strip_prefix("org-").and_then(Role::parse) {
            sqlx::query("INSERT INTO organisation_memberships (organisation_id, principal_id, role) VALUES ($1, $2, $3)")
                .bind(world.seeded.organisation_id)
                .bind(id)
                .bind(role.as_str())
                .execute(&pool)
                .await
                .expect("a member of the organisation");
        }
        credentials.insert(name, Some(world.token(&format!("t-{name}"))));
    }
    sqlx::query(
        "INSERT INTO invitations (id, project_id, email, role, token_hash, inviter, expire_time)
         VALUES ($1, $2, 'x@example.com', 'viewer', sha256('x'), 'user:demo', now() + interval '1 day')",
    )
    .bind(SOME)
    .bind(world.seeded.project_id)
    .execute(&pool)
    .await
    .expect("invited");
    sqlx::query(
        "INSERT INTO webhooks (id, project_id, url, event_types, description, secret, creator)
         VALUES ($1, $2, 'https://hooks.invalid/', '{}', '', 'x', 'user:demo')",
    )
    .bind(SOME)
    .bind(world.seeded.project_id)
    .execute(&pool)
    .await
    .expect("a webhook");
    let key = key(&pool, world.seeded.project_id, Role::Owner, &[Scope::Read]).await;
    credentials.insert("key", Some(key.reveal().to_owned()));
    credentials
}

pub async fn join(pool: &PgPool, principal: Uuid, project: Uuid, role: Role) {
    sqlx::query("INSERT INTO memberships (principal_id, project_id, role) VALUES ($1, $2, $3)")
        .bind(principal)
        .bind(project)
        .bind(role.as_str())
        .execute(pool)
        .await
        .expect("a member");
}

/// A key of a new service account.
pub async fn key(pool: &PgPool, project: Uuid, role: Role, scopes: &[Scope]) -> ApiKey {
    let ids = IdGen::new(CELL);
    let account = ids.next();
    let slug = format!("a{}", account.simple());
    let mut conn = pool.acquire().await.expect("connection");
    let new = NewServiceAccount {
        id: account,
        project,
        slug: &slug,
        name: &format!("service:{slug}"),
        issuer: &issuer_of(CELL),
        description: "",
        role,
        creator: "user:demo",
    };
    let made = store::insert_service_account(&mut conn, &new).await;
    assert!(made.expect("inserted"));
    drop(conn);
    another_key(pool, account, scopes).await
}

/// One more key of a service account.
pub async fn another_key(pool: &PgPool, account: Uuid, scopes: &[Scope]) -> ApiKey {
    let id = IdGen::new(CELL).next();
    let mut conn = pool.acquire().await.expect("connection");
    let mut random = [0; 32];
    random[..16].copy_from_slice(Uuid::new_v4().as_bytes());
    let key = ApiKey::new(CELL, id, &random);
    let new = NewApiKey {
        id,
        account,
        display_name: "",
        hash: &key.hash(),
        scopes,
        creator: "user:demo",
        expire_time: None,
        replaces: None,
    };
    store::insert_api_key(&mut conn, &new).await.expect("key");
    key
}

/// The table: method by name, with a word for each column.
fn table() -> BTreeMap<String, Vec<String>> {
    let rows = TABLE
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    rows.map(|line| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let method = words.next().expect("a method");
        let words: Vec<_> = words.collect();
        assert_eq!(words.len(), CALLERS.len(), "{line}");
        (method, words)
    })
    .collect()
}

/// Whether the gateway answers it itself.
fn is_own(route: &Route) -> bool {
    route.service == gpuaas_gateway::contract::route::GATEWAY
}

fn name_of(route: &Route) -> String {
    let service = route.method.parent_service();
    format!("{}.{}", service.name(), route.method.name())
}

#[tokio::test]
async fn h_19_every_method_by_every_caller_is_as_declared() {
    let stand_ins: Vec<&'static str> = SERVICES.into_iter().chain([TERMINAL]).collect();
    let world = World::build(4, &stand_ins, |_, _| {}).await;
    let credentials = register(&world).await;
    let table = table();
    let routes = gpuaas_gateway::routes().expect("served");
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    // those that the gateway answers itself last: they make what others would see
    let (own, others): (Vec<_>, Vec<_>) = routes.routes().iter().partition(|route| is_own(route));
    for route in others.into_iter().chain(own) {
        let name = name_of(route);
        let Some(expected) = table.get(&name) else {
            wrong.push(format!("{name}: not in tests/data/access.txt"));
            continue;
        };
        for (caller, expected) in CALLERS.iter().zip(expected) {
            let credential = credentials[caller].as_deref();
            let got = outcome(&world, route, credential).await;
            if got != *expected {
                wrong.push(format!("{name} by {caller}: {got}, declared {expected}"));
            }
        }
        seen.insert(name);
    }
    for name in table.keys().filter(|name| !seen.contains(*name)) {
        wrong.push(format!("{name}: declared, and not in the contract"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Answers of the gateway itself that come after its decision: a caller whom it refuses gets another one for the same request.
const AFTER_THE_DECISION: [&str; 5] = [
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "ABORTED",
    "ALREADY_EXISTS",
    "FAILED_PRECONDITION",
];

/// "401"; "no" for a refusal; "yes" when the method was called for something of the caller's, or for what is no project's;
/// "none" when it was called for a caller who has no project in which there could be anything. Of another error nobody knows
/// whether the call was allowed: it is itself, which no table has.
async fn outcome(world: &World, route: &Route, credential: Option<&str>) -> String {
    let (target, body) = request_of(route, &world.seeded);
    let method: Method = route.http_method.as_str().parse().expect("a method");
    let mut request = world.http.request(method, world.url(&target));
    if let Some(credential) = credential {
        request = request.bearer_auth(credential);
    }
    if route.http_method != http::Method::GET {
        let key = Uuid::new_v4().to_string();
        request = request.header("x-idempotency-key", key);
    }
    if let Some(body) = body {
        request = request.json(&body);
    }
    let (status, body) = answer(request.send().await.expect("answer")).await;
    let code = body["error"]["status"].as_str().unwrap_or_default();
    match status {
        401 => "401",
        403 if reason(&body) == "PERMISSION_DENIED" => "no",
        200 => "yes",
        400 if field(&body) == FIELD => {
            let why = &detail(&body, "BadRequest")["field_violations"][0]["description"];
            let for_none = why
                .as_str()
                .is_some_and(|why| why.ends_with("called for 0"));
            match for_none && route.group.is_of_a_project() {
                true => "none",
                false => "yes",
            }
        }
        404 if HIDDEN.contains(&field(&body)) && !route.action.starts_with("admin.") => "none",
        // what the gateway itself finds wrong
        _ if is_own(route) && AFTER_THE_DECISION.contains(&code) => "yes",
        _ => return format!("{status} {body}"),
    }
    .to_owned()
}

/// An error that says nothing of rights is no right.
#[tokio::test]
async fn a_service_that_is_away_fails_the_table_of_rights() {
    let world = World::build(4, &[], |_, _| {}).await;
    let credentials = register(&world).await;
    let routes = gpuaas_gateway::routes().expect("served");
    let found = async |method: &str| {
        let mut all = routes.routes().iter();
        let route = all.find(|route| name_of(route) == method);
        let admin = credentials["admin"].as_deref();
        outcome(&world, route.expect("of the contract"), admin).await
    };
    for method in [
        "NodeAdminService.ListNodes",
        "ImageAdminService.ListAllImages",
    ] {
        let outcome = found(method).await;
        assert!(
            !["yes", "no", "none"].contains(&&*outcome),
            "{method}: {outcome}"
        );
    }
}

/// Path, query and body of a request that has what the method requires and nothing else.
fn request_of(route: &Route, seeded: &Seeded) -> (String, Option<Value>) {
    let input = route.method.input();
    let mut target = route.pattern.clone();
    let in_path: Vec<String> = route.template.variables().map(str::to_owned).collect();
    for variable in &in_path {
        let value = match variable.as_str() {
            "project_id" => seeded.project_id.to_string(),
            // an administrator would suspend it
            "organisation_id" if !route.action.starts_with("admin.") => {
                seeded.organisation_id.to_string()
            }
            // a number, unlike all others
            "partition_id" => "7".to_owned(),
            name if name.ends_with("id") => SOME.to_string(),
            _ => "x".to_owned(),
        };
        target = target.replace(&format!("{{{variable}}}"), &value);
    }
    let mut whole = required(&input, &in_path, "");
    // what is checked before who asks
    for (field, value) in [
        ("email", "x@example.com".to_owned()),
        ("public_key", PUBLIC_KEY.to_owned()),
        ("organisation_id", seeded.organisation_id.to_string()),
    ] {
        if let Some(given) = whole.get_mut(field) {
            *given = json!(value);
        }
    }
    // no change is made: it was not read before
    if input.get_field_by_name("etag").is_some() {
        whole.insert("etag".to_owned(), json!("stale"));
    }
    let body = match &route.body {
        Body::Whole => Some(Value::Object(whole)),
        Body::Field(name) => whole.get(name).cloned().or(Some(json!({}))),
        Body::None => {
            let query: Vec<String> = whole
                .iter()
                .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or("1")))
                .collect();
            if !query.is_empty() {
                target = format!("{target}?{}", query.join("&"));
            }
            None
        }
    };
    (target, body)
}

fn required(message: &MessageDescriptor, given: &[String], before: &str) -> Map<String, Value> {
    let mut found = Map::new();
    for field in message.fields() {
        let path = format!("{before}{}", field.name());
        if given.contains(&path) || !behavior_of(&field).required {
            continue;
        }
        let one = sample(&field, given, &path);
        let value = if field.is_list() { json!([one]) } else { one };
        found.insert(field.name().to_owned(), value);
    }
    found
}

fn sample(field: &FieldDescriptor, given: &[String], path: &str) -> Value {
    match field.kind() {
        Kind::String => json!("x"),
        Kind::Bytes => json!("eA=="),
        Kind::Bool => json!(true),
        Kind::Enum(kind) => json!(kind.get_value(1).map(|value| value.name().to_owned())),
        Kind::Message(inner) => match inner.full_name() {
            "google.protobuf.Timestamp" => json!("2099-01-01T00:00:00Z"),
            "google.protobuf.Duration" => json!("1s"),
            _ => Value::Object(required(&inner, given, &format!("{path}."))),
        },
        _ => json!(1),
    }
}

/// Two projects, another role in each: what is in the one is refused with what is lacking there, what is in neither is not
/// found.
#[tokio::test]
async fn own_things_are_refused_with_the_role_that_lacks_and_foreign_ones_are_absent() {
    let world = World::start().await;
    let pool = world.pool().await;
    let (other, foreign) = (Uuid::now_v7(), Uuid::now_v7());
    for project in [other, foreign] {
        sqlx::query("INSERT INTO projects (id, organisation_id, slug, display_name) VALUES ($1, $2, 'p' || $3, '')")
            .bind(project)
            .bind(world.seeded.organisation_id)
            .bind(project.simple().to_string())
            .execute(&pool)
            .await
            .expect("project");
    }
    let id = Uuid::now_v7();
    sqlx::query(
        "INSERT INTO principals (id, name, issuer, subject, display_name) VALUES ($1, 'user:mixed', $2, 'mixed', '')",
    )
    .bind(id)
    .bind(ISSUER)
    .execute(&pool)
    .await
    .expect("registered");
    join(&pool, id, world.seeded.project_id, Role::Member).await;
    join(&pool, id, other, Role::Viewer).await;
    let stop = async |project: Uuid| {
        let request = world
            .http
            .post(world.url(&format!("/api/v1/allocations/in-{project}:stop")))
            .bearer_auth(world.token("mixed"))
            .header("x-idempotency-key", Uuid::new_v4().to_string())
            .json(&json!({}));
        answer(request.send().await.expect("answer")).await
    };
    assert_eq!(stop(world.seeded.project_id).await.0, 200);
    let (status, body) = stop(other).await;
    assert_eq!(
        (status, reason(&body)),
        (403, "PERMISSION_DENIED"),
        "{body}"
    );
    let message = body["error"]["message"].as_str().expect("a message");
    assert!(
        message.contains("owner or member") && message.contains("viewer"),
        "{message}"
    );
    assert_eq!(
        detail(&body, "ErrorInfo")["metadata"]["roles"],
        "owner,member"
    );
    let (status, not_ours) = stop(foreign).await;
    let (absent_status, absent) = stop(Uuid::now_v7()).await;
    assert_eq!((status, absent_status), (404, 404), "{not_ours}");
    assert_eq!(reason(&not_ours), reason(&absent));
    assert_eq!(not_ours["error"]["message"], absent["error"]["message"]);

    // a launch says its project
    let launch = async |project: Uuid| {
        let body = json!({ "project_id": project, "name": "a", "region_code": "r", "sku": "s",
            "gpu_count": 1, "image": "i", "ssh_public_keys": ["k"] });
        let request = world
            .http
            .post(world.url("/api/v1/allocations"))
            .bearer_auth(world.token("mixed"))
            .header("x-idempotency-key", Uuid::new_v4().to_string())
            .json(&body);
        answer(request.send().await.expect("answer")).await
    };
    let (status, body) = launch(other).await;
    assert_eq!(
        (status, reason(&body)),
        (403, "PERMISSION_DENIED"),
        "{body}"
    );
    // the service is asked only for what is allowed
    world.record.clear();
    let (status, body) = world
        .call(Method::GET, "/api/v1/allocations", "mixed")
        .await;
    assert_eq!(status, 200, "{body}");
    let listed = &world.record.all()[0].caller;
    assert_eq!(listed.projects, [world.seeded.project_id, other]);
    assert_eq!(listed.action.as_deref(), Some("allocation.list"));
    let denied: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM audit WHERE principal = 'user:mixed' AND detail->>'outcome' = 'denied'",
    )
    .fetch_one(&pool)
    .await
    .expect("rows");
    assert_eq!(denied, 2, "denials are on record");
}
