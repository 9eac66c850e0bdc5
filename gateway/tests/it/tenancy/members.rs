//! Who may manage members, that an owner stays, and that many members are listed page by page.
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{id, outcome, refusal};
use crate::world::{World, reason};

/// Every role, by everything that members do to each other.
#[tokio::test]
async fn h_26_only_owners_manage_members() {
    let world = World::start().await;
    world
        .users(&[
            "olga",
            "org-owner",
            "mia",
            "vera",
            "bill",
            "stranger",
            "new",
            "other",
        ])
        .await;
    let organisation = world.organisation("acme", "org-owner").await;
    let project = world.project(&organisation, "training", "org-owner").await;
    world.member(&project, "olga", "owner").await;
    let other = world.member(&project, "other", "member").await;
    for (who, role) in [("mia", "member"), ("vera", "viewer"), ("bill", "billing")] {
        world.member(&project, who, role).await;
    }
    // somebody of the organisation, whom owners add without asking
    let of_organisation = format!("/api/v1/organisations/{organisation}/members");
    let known = json!({ "principal": "user:new", "role": "billing" });
    world.made("admin", &of_organisation, known).await;
    let members = format!("/api/v1/projects/{project}/members");
    let one = format!("{members}/{other}");
    let add = json!({ "principal": "user:new", "role": "viewer" });
    for (who, reads, changes) in [
        ("org-owner", 200, 200),
        ("olga", 200, 200),
        ("admin", 200, 200),
        ("mia", 200, 403),
        ("vera", 200, 403),
        ("bill", 200, 403),
        ("stranger", 404, 404),
        ("nobody", 403, 403),
    ] {
        assert_eq!(world.get(who, &members).await.0, reads, "{who} lists");
        let (status, added) = world.post_by(who, &members, add.clone()).await;
        assert_eq!(status, changes, "{who} adds: {added}");
        let (status, body) = world
            .send(who, Method::PATCH, &one, json!({ "role": "viewer" }))
            .await;
        assert_eq!(status, changes, "{who} changes: {body}");
        if status == 200 {
            assert_eq!(body["role"], "viewer");
            let new = format!("{members}/{}", added["member_id"].as_str().expect("an id"));
            let (status, body) = world.send(who, Method::DELETE, &new, Value::Null).await;
            assert_eq!(status, 200, "{who} removes: {body}");
        } else {
            let (status, body) = world.send(who, Method::DELETE, &one, Value::Null).await;
            assert_eq!(status, changes, "{who} removes: {body}");
        }
    }
    assert_eq!(
        world.recorded("project_member.update").await,
        3,
        "what was done is on record"
    );
    let roles = "SELECT count(*) FROM memberships m JOIN projects j ON j.id = m.project_id WHERE j.slug = 'training'";
    let left: i64 = sqlx::query_scalar(roles)
        .fetch_one(&world.pool().await)
        .await
        .expect("count");
    assert_eq!(left, 6, "what was refused has changed nothing");
}

#[tokio::test]
async fn what_is_not_the_callers_is_as_if_it_were_not() {
    let world = World::start().await;
    world.users(&["olga", "stranger"]).await;
    let organisation = world.organisation("acme", "olga").await;
    let project = world.project(&organisation, "training", "olga").await;
    let key = world
        .made(
            "olga",
            &format!("/api/v1/projects/{project}/ssh-keys"),
            json!({
                "name": "k", "public_key": super::ssh_keys::ED,
            }),
        )
        .await;
    let invited = json!({ "email": "a@example.com", "role": "member" });
    let invitation = world
        .made(
            "olga",
            &format!("/api/v1/projects/{project}/invitations"),
            invited.clone(),
        )
        .await;
    let absent = Uuid::now_v7().to_string();
    let add = json!({ "principal": "user:nobody-at-all", "role": "member" });
    for (method, path, body, of) in [
        (
            Method::GET,
            "/api/v1/organisations/ID",
            Value::Null,
            &organisation,
        ),
        (
            Method::PATCH,
            "/api/v1/organisations/ID",
            json!({ "display_name": "x" }),
            &organisation,
        ),
        (
            Method::GET,
            "/api/v1/organisations/ID/members",
            Value::Null,
            &organisation,
        ),
        (
            Method::POST,
            "/api/v1/organisations/ID/members",
            add.clone(),
            &organisation,
        ),
        (
            Method::POST,
            "/api/v1/organisations/ID/invitations",
            invited.clone(),
            &organisation,
        ),
        (Method::GET, "/api/v1/projects/ID", Value::Null, &project),
        (
            Method::POST,
            "/api/v1/projects/ID:suspend",
            json!({}),
            &project,
        ),
        (
            Method::POST,
            "/api/v1/projects/ID:close",
            json!({}),
            &project,
        ),
        (
            Method::GET,
            "/api/v1/projects/ID/members",
            Value::Null,
            &project,
        ),
        (Method::POST, "/api/v1/projects/ID/members", add, &project),
        (
            Method::GET,
            "/api/v1/projects/ID/invitations",
            Value::Null,
            &project,
        ),
        (
            Method::GET,
            "/api/v1/projects/ID/ssh-keys",
            Value::Null,
            &project,
        ),
        (
            Method::POST,
            "/api/v1/invitations/ID:revoke",
            json!({}),
            &id(&invitation),
        ),
        (
            Method::DELETE,
            "/api/v1/ssh-keys/ID",
            Value::Null,
            &id(&key),
        ),
    ] {
        let foreign = world
            .send(
                "stranger",
                method.clone(),
                &path.replace("ID", of),
                body.clone(),
            )
            .await;
        let missing = world
            .send(
                "stranger",
                method.clone(),
                &path.replace("ID", &absent),
                body.clone(),
            )
            .await;
        let nonsense = world
            .send("stranger", method, &path.replace("ID", "x"), body)
            .await;
        assert_eq!(
            (foreign.0, missing.0, nonsense.0),
            (404, 404, 404),
            "{path}: {}",
            foreign.1
        );
        assert_eq!(refusal(&foreign.1), refusal(&missing.1), "{path}");
        assert_eq!(refusal(&foreign.1), refusal(&nonsense.1), "{path}");
    }
    // who creates in an organisation that is not theirs learns as little
    let create = |id: &str| json!({ "organisation_id": id, "slug": "mine" });
    let foreign = world
        .post_by("stranger", "/api/v1/projects", create(&organisation))
        .await;
    let missing = world
        .post_by("stranger", "/api/v1/projects", create(&absent))
        .await;
    assert_eq!((foreign.0, refusal(&foreign.1)), (404, refusal(&missing.1)));
}

#[tokio::test]
async fn the_last_owner_neither_goes_nor_becomes_less() {
    let world = World::start().await;
    world.users(&["olga", "paul"]).await;
    let organisation = world.organisation("acme", "olga").await;
    let of_organisation = format!("/api/v1/organisations/{organisation}/members");
    let (_, listed) = world.get("olga", &of_organisation).await;
    let olga = listed["members"][0]["member_id"].as_str().expect("an id");
    let one = format!("{of_organisation}/{olga}");
    for (method, body) in [
        (Method::DELETE, Value::Null),
        (Method::PATCH, json!({ "role": "member" })),
    ] {
        let (status, body) = world.send("olga", method, &one, body).await;
        assert_eq!((status, reason(&body)), (400, "LAST_OWNER"), "{body}");
    }
    // a disabled owner is none
    let paul = json!({ "principal": "user:paul", "role": "owner" });
    world.made("admin", &of_organisation, paul).await;
    let pool = world.pool().await;
    let disable = "UPDATE principals SET disable_time = now() WHERE name = 'user:paul'";
    sqlx::query(disable).execute(&pool).await.expect("disabled");
    let (_, body) = world.send("olga", Method::DELETE, &one, Value::Null).await;
    assert_eq!(reason(&body), "LAST_OWNER");
    sqlx::query("UPDATE principals SET disable_time = NULL")
        .execute(&pool)
        .await
        .expect("enabled");

    // a project has the owners of its organisation, so its own last one may go
    let project = world.project(&organisation, "training", "olga").await;
    let target = format!("/api/v1/projects/{project}/members/{olga}");
    let (status, body) = world
        .send("olga", Method::DELETE, &target, Value::Null)
        .await;
    assert_eq!(status, 200, "{body}");
    let (_, seen) = world
        .get("olga", &format!("/api/v1/projects/{project}"))
        .await;
    assert_eq!(seen["role"], "owner", "by the organisation");
    // where the organisation has none, it may not
    let demo = format!("/api/v1/projects/{}/members", world.seeded.project_id);
    let (_, listed) = world.get("demo", &demo).await;
    let owners: Vec<String> = listed["members"]
        .as_array()
        .expect("members")
        .iter()
        .map(|member| format!("{demo}/{}", member["member_id"].as_str().expect("an id")))
        .collect();
    assert_eq!(owners.len(), 2);
    assert_eq!(
        world
            .send("demo", Method::DELETE, &owners[0], Value::Null)
            .await
            .0,
        200
    );
    let (status, body) = world
        .send("admin", Method::DELETE, &owners[1], Value::Null)
        .await;
    assert_eq!(
        (status, reason(&body)),
        (400, "LAST_OWNER"),
        "also for an administrator"
    );
}

/// Two owners who remove each other at once: one stays.
#[tokio::test]
async fn an_owner_is_left_whoever_races() {
    let world = World::start_on(8, |_, _| {}).await;
    world.users(&["olga", "paul"]).await;
    for round in 0..5 {
        let organisation = world.organisation(&format!("acme-{round}"), "olga").await;
        let members = format!("/api/v1/organisations/{organisation}/members");
        world
            .made(
                "admin",
                &members,
                json!({ "principal": "user:paul", "role": "owner" }),
            )
            .await;
        let (_, listed) = world.get("olga", &members).await;
        let of = |name: &str| {
            let all = listed["members"].as_array().expect("members");
            let one = all
                .iter()
                .find(|one| one["principal"] == name)
                .expect("a member");
            format!("{members}/{}", one["member_id"].as_str().expect("an id"))
        };
        let (olga, paul) = (of("user:olga"), of("user:paul"));
        let (first, second) = tokio::join!(
            world.send("olga", Method::DELETE, &paul, Value::Null),
            world.send("paul", Method::PATCH, &olga, json!({ "role": "viewer" })),
        );
        let done = [first.0, second.0]
            .iter()
            .filter(|status| **status == 200)
            .count();
        assert_eq!(done, 1, "{first:?} {second:?}");
        let left: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM organisation_memberships WHERE role = 'owner' AND organisation_id = $1::uuid",
        )
        .bind(&organisation)
        .fetch_one(&world.pool().await)
        .await
        .expect("count");
        assert_eq!(left, 1);
    }
}

#[tokio::test]
async fn of_two_who_decide_on_the_same_version_one_is_told_to_read_again() {
    let world = World::start_on(8, |_, _| {}).await;
    world.users(&["olga", "paul"]).await;
    let organisation = world.organisation("acme", "olga").await;
    let project = world.project(&organisation, "training", "olga").await;
    let paul = world.member(&project, "paul", "viewer").await;
    for (target, bodies) in [
        (
            format!("/api/v1/projects/{project}/members/{paul}"),
            [json!({ "role": "member" }), json!({ "role": "billing" })],
        ),
        (
            format!("/api/v1/projects/{project}"),
            [
                json!({ "display_name": "One" }),
                json!({ "display_name": "Two" }),
            ],
        ),
        (
            format!("/api/v1/organisations/{organisation}"),
            [
                json!({ "display_name": "One" }),
                json!({ "display_name": "Two" }),
            ],
        ),
    ] {
        let with = |body: &Value| {
            let mut body = body.clone();
            body["etag"] = json!("1");
            world.send("olga", Method::PATCH, &target, body)
        };
        let (first, second) = tokio::join!(with(&bodies[0]), with(&bodies[1]));
        let mut all = [outcome(&first), outcome(&second)];
        all.sort_unstable();
        assert_eq!(all, [(200, ""), (409, "ETAG_STALE")], "{target}");
    }
}

#[tokio::test]
async fn a_role_in_the_organisation_counts_in_its_projects_and_the_stronger_one_wins() {
    let world = World::start().await;
    world.users(&["olga", "mia"]).await;
    let organisation = world.organisation("acme", "olga").await;
    let project = world.project(&organisation, "training", "olga").await;
    let of_organisation = format!("/api/v1/organisations/{organisation}/members");
    let seen = format!("/api/v1/projects/{project}");
    assert_eq!(world.get("mia", &seen).await.0, 404);
    world
        .made(
            "admin",
            &of_organisation,
            json!({ "principal": "user:mia", "role": "viewer" }),
        )
        .await;
    assert_eq!(world.get("mia", &seen).await.1["role"], "viewer");
    let mia = world.member(&project, "mia", "member").await;
    assert_eq!(world.get("mia", &seen).await.1["role"], "member");
    let (_, me) = world.get("mia", "/api/v1/whoami").await;
    assert_eq!(
        me["projects"].as_array().map(Vec::len),
        Some(1),
        "once: {me}"
    );
    assert_eq!(me["projects"][0]["role"], "member");
    assert_eq!(me["organisations"][0]["role"], "viewer");
    let one = format!("/api/v1/projects/{project}/members/{mia}");
    assert_eq!(
        world
            .send("olga", Method::DELETE, &one, Value::Null)
            .await
            .0,
        200
    );
    assert_eq!(world.get("mia", &seen).await.1["role"], "viewer");
}

#[tokio::test]
async fn adding_a_member_has_one_effect_however_often_it_is_tried() {
    let world = World::start().await;
    world.users(&["olga", "mia"]).await;
    let organisation = world.organisation("acme", "olga").await;
    let project = world.project(&organisation, "training", "olga").await;
    world.member(&project, "mia", "viewer").await;
    let members = format!("/api/v1/organisations/{organisation}/members");
    let add = json!({ "principal": "user:mia", "role": "viewer" });
    let first = world
        .send_as("olga", Method::POST, &members, add.clone(), "k")
        .await;
    let again = world
        .send_as("olga", Method::POST, &members, add.clone(), "k")
        .await;
    assert_eq!((first.0, &first), (200, &again));
    assert_eq!(world.recorded("organisation_member.add").await, 1);
    let (status, body) = world.post_by("olga", &members, add).await;
    assert_eq!(
        (status, reason(&body)),
        (409, "ALREADY_EXISTS"),
        "with another key"
    );
    let other = json!({ "principal": "user:mia", "role": "owner" });
    let (status, body) = world
        .send_as("olga", Method::POST, &members, other, "k")
        .await;
    assert_eq!((status, reason(&body)), (409, "IDEMPOTENCY_KEY_REUSED"));
    let (status, body) = world
        .post_by(
            "olga",
            &members,
            json!({ "principal": "user:ghost", "role": "owner" }),
        )
        .await;
    assert_eq!((status, crate::world::field(&body)), (400, "principal"));
}

/// A page is read by an index, however many there are.
#[tokio::test]
async fn a_hundred_thousand_members_are_listed_page_by_page() {
    let world = World::start().await;
    let owner = world.db.owner_pool().await;
    let project = world.seeded.project_id;
    for statement in [
        "INSERT INTO edge.principals (id, name, issuer, subject, display_name)
         SELECT lpad(to_hex(n), 32, '0')::uuid, 'user:m' || n, 'i', n::text, '' FROM generate_series(1, 100000) AS n",
        "INSERT INTO edge.memberships (principal_id, project_id, role)
         SELECT p.id, j.id, 'viewer' FROM edge.principals p, edge.projects j WHERE p.issuer = 'i' AND j.slug = 'demo'",
        "ANALYZE edge.memberships, edge.principals",
    ] {
        sqlx::query(statement).execute(&owner).await.expect(statement);
    }
    let members = format!("/api/v1/projects/{project}/members?page_size=500");
    let mut token = String::new();
    let mut seen = 0;
    loop {
        let (status, page) = world
            .get("demo", &format!("{members}&page_token={token}"))
            .await;
        assert_eq!(status, 200, "{page}");
        seen += page["members"].as_array().expect("members").len();
        token = page["next_page_token"]
            .as_str()
            .expect("a token")
            .to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, 100_002);
    let (_, one) = world
        .get(
            "demo",
            &format!("/api/v1/projects/{project}/members?principal=user:m77777"),
        )
        .await;
    assert_eq!(one["members"].as_array().map(Vec::len), Some(1), "{one}");
    // no page sorts or reads all of them
    let plan: Vec<String> = sqlx::query_scalar(
        "EXPLAIN SELECT p.name FROM edge.memberships m JOIN edge.principals p ON p.id = m.principal_id
          WHERE m.project_id = (SELECT id FROM edge.projects WHERE slug = 'demo')
            AND m.principal_id > '00000000-0000-0000-0000-00000000c350' ORDER BY m.principal_id LIMIT 501",
    )
    .fetch_all(&owner)
    .await
    .expect("a plan");
    let plan = plan.join("\n");
    assert!(
        !plan.contains("Sort") && !plan.contains("Seq Scan on memberships m"),
        "{plan}"
    );
}
