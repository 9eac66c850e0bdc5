//! SSH keys by name, projects and members.
use crate::support::{World, allocation, error};
use serde_json::{Value, json};

const PROJECT: &str = "01930000-0007-7000-8000-000000000007";
const KEY: &str = "01930000-0006-7000-8000-000000000006";
const MEMBER: &str = "01930000-0005-7000-8000-000000000005";

fn world() -> World {
    let world = World::new();
    world.get(
        "/api/v1/whoami",
        json!({ "projects": [{ "id": PROJECT, "slug": "vision" }] }),
    );
    std::fs::write(world.path("k.pub"), "# mine\nssh-ed25519 AAAA me\n").expect("write");
    world
}

fn last(world: &World) -> (String, String, Value) {
    let sent = world.changes().pop().expect("sent");
    assert!(sent.key.is_some());
    assert_eq!(sent.authorization.as_deref(), Some("Bearer user-token"));
    (sent.method, sent.target, sent.body)
}

#[test]
fn ssh_keys_are_kept_listed_and_deleted_by_name() {
    let world = world();
    let file = world.path("k.pub").display().to_string();
    let own = "/api/v1/ssh-keys";
    let shared = format!("/api/v1/projects/{PROJECT}/ssh-keys");
    world.on("POST", own, [(200, json!({ "id": KEY }))]);
    world.on("POST", &shared, [(200, json!({ "id": KEY }))]);
    let ran = world
        .run(&["ssh-key", "create", "laptop", "--file", &file])
        .ok();
    assert!(ran.out.contains("--ssh-key laptop"), "{ran:?}");
    let body = json!({ "name": "laptop", "public_key": "ssh-ed25519 AAAA me" });
    assert_eq!(last(&world), ("POST".into(), own.into(), body));
    world
        .run(&[
            "ssh-key",
            "add",
            "ci",
            "--file",
            &file,
            "--project",
            "vision",
        ])
        .ok();
    assert_eq!(last(&world).1, shared);
    assert!(
        world
            .get(own, json!({ "ssh_keys": [] }))
            .run(&["ssh-key", "list"])
            .ok()
            .out
            .contains("gpuaas ssh-key create")
    );
    world.get(
        own,
        json!({ "ssh_keys": [{ "id": KEY, "name": "laptop", "fingerprint": "SHA256:x" }] }),
    );
    assert!(
        world
            .run(&["ssh-key", "list"])
            .ok()
            .out
            .contains("SHA256:x")
    );
    world.on("DELETE", &format!("{own}/{KEY}"), [(200, json!({}))]);
    let ran = world.run(&["ssh-key", "delete", "laptpo"]);
    assert!(
        ran.code == 3 && ran.err.contains("did you mean laptop?"),
        "{ran:?}"
    );
    world.run(&["ssh-key", "delete", "laptop"]).ok();
    assert_eq!(last(&world).1, format!("{own}/{KEY}"));
}

#[test]
fn a_launch_takes_kept_keys_by_name_beside_files() {
    let world = world();
    let file = world.path("k.pub").display().to_string();
    world.get(
        "/api/v1/regions",
        json!({ "regions": [{ "code": "lab", "enabled": true }] }),
    );
    world.on(
        "POST",
        "/api/v1/allocations",
        [(200, allocation("requested"))],
    );
    let launch = |keys: &[&str]| {
        let mut arguments = vec!["launch", "--sku", "s", "--image", "i"];
        for key in keys {
            arguments.extend(["--ssh-key", key]);
        }
        world.run(&arguments).ok();
        let body = last(&world).2;
        (
            body["ssh_key_names"].clone(),
            body["ssh_public_keys"].as_array().map_or(0, Vec::len),
        )
    };
    assert_eq!(launch(&["laptop"]), (json!(["laptop"]), 0));
    assert_eq!(launch(&["laptop", &file]), (json!(["laptop"]), 1));
    assert_eq!(launch(&[&file]), (Value::Null, 1));
}

#[test]
fn members_are_listed_changed_and_removed_by_their_principal() {
    let world = world();
    let path = format!("/api/v1/projects/{PROJECT}/members");
    let one = format!("{path}/{MEMBER}");
    world.get(&path, json!({ "members": [{ "member_id": MEMBER, "principal": "user:bob", "role": "member", "etag": "e1" }] }));
    assert!(world.run(&["member", "list"]).ok().out.contains("user:bob"));
    world.on("PATCH", &one, [(200, json!({}))]);
    world
        .run(&[
            "member",
            "set-role",
            "user:bob",
            "viewer",
            "--project",
            "vision",
        ])
        .ok();
    assert_eq!(last(&world).2, json!({ "role": "viewer", "etag": "e1" }));
    let ran = world.run(&["member", "remove", "user:bbo"]);
    assert!(
        ran.code == 3 && ran.err.contains("did you mean user:bob?"),
        "{ran:?}"
    );
    world.on("DELETE", &one, [(200, json!({}))]);
    world.run(&["member", "remove", "user:bob"]).ok();
    assert_eq!(last(&world).1, format!("{one}?etag=e1"));
    several_members_are_removed_and_none_where_one_is_misspelled(&world, &path);
    assert_eq!(
        world
            .run(&["member", "add", "user:x", "--role", "king"])
            .code,
        2
    );
}

fn several_members_are_removed_and_none_where_one_is_misspelled(world: &World, path: &str) {
    let listed = ["bob", "ada"].map(
        |name| json!({ "member_id": name, "principal": format!("user:{name}"), "etag": "e1" }),
    );
    world.get(path, json!({ "members": listed }));
    let before = world.changes().len();
    let ran = world.run(&["member", "remove", "user:ada", "user:bbo"]);
    assert_eq!((ran.code, world.changes().len()), (3, before), "{ran:?}");
    for name in ["ada", "bob"] {
        let answer = (200, json!({ "member_id": name }));
        world.on("DELETE", &format!("{path}/{name}"), [answer]);
    }
    let both = ["member", "remove", "user:ada", "user:bob"];
    assert_eq!(
        world.run(&both).ok().out,
        "Removed user:ada.\nRemoved user:bob.\n"
    );
    let made = &world.changes()[before..];
    let keys: Vec<_> = made.iter().map(|one| one.key.clone()).collect();
    assert!(
        keys.len() == 2 && keys[0] != keys[1] && keys[0].is_some(),
        "{keys:?}"
    );
    let ran = world.run(&[&both[..], &["--output", "json"]].concat()).ok();
    let printed: Value = serde_json::from_str(&ran.out).expect("JSON");
    let expected = json!({ "members": [{ "member_id": "ada" }, { "member_id": "bob" }] });
    assert_eq!(printed, expected);
    // what was done before a refusal is said
    let refused = error(409, "LAST_OWNER", "The last owner stays.", &[]);
    world.on("DELETE", &format!("{path}/bob"), [(409, refused)]);
    let ran = world.run(&both);
    assert!(ran.code == 4 && ran.out == "Removed user:ada.\n", "{ran:?}");
    for part in [
        "The last owner stays.",
        "done:    user:ada\n",
        "not yet: user:bob\n",
    ] {
        assert!(ran.err.contains(part), "{part}: {ran:?}");
    }
    let ran = world.run(&[&both[..], &["--output", "json"]].concat());
    let error: Value = serde_json::from_str(&ran.err).expect("JSON");
    assert_eq!(
        (&error["error"]["done"], &error["error"]["not_done"]),
        (&json!(["user:ada"]), &json!(["user:bob"])),
        "{ran:?}"
    );
    // the same again, when the first is gone
    let left =
        json!({ "members": [{ "member_id": "bob", "principal": "user:bob", "etag": "e1" }] });
    world.get(path, left);
    let rule = "must be an existing member";
    let gone = crate::support::error(404, "NOT_FOUND", "no such member", &[("member_id", rule)]);
    world.on(
        "DELETE",
        &format!("{path}/bob"),
        [(200, json!({})), (404, gone)],
    );
    let again = ["member", "remove", "user:adaline", "user:bob"];
    assert_eq!(
        world.run(&again).ok().out,
        "user:adaline is no member any more.\nRemoved user:bob.\n"
    );
    // somebody else removes the last one meanwhile
    assert_eq!(
        world.run(&again).ok().out,
        "user:adaline is no member any more.\nuser:bob is no member any more.\n"
    );
    world.get(path, json!({ "members": [] }));
    let ran = world
        .run(&[&again[..], &["--output", "json"]].concat())
        .ok();
    let printed: Value = serde_json::from_str(&ran.out).expect("JSON");
    let gone = |name: &str| json!({ "member": name, "gone": true });
    let expected = json!({ "members": [gone("user:adaline"), gone("user:bob")] });
    assert_eq!(printed, expected);
    // by an id, too
    let id = "01a22a33-623d-7001-8aa0-c5a9b16e65f4";
    let ran = world.run(&["member", "remove", id]).ok();
    assert_eq!(ran.out, format!("{id} is no member any more.\n"));
    // what can be the name of nobody is misspelled
    assert_eq!(world.run(&["member", "remove", "adaline"]).code, 3);
}

#[test]
fn a_repeated_removal_of_several_gives_each_the_key_and_the_place_that_it_had() {
    let world = world();
    let path = format!("/api/v1/projects/{PROJECT}/members");
    let member = |name: &str| json!({ "member_id": name, "principal": format!("user:{name}"), "etag": "e1" });
    for name in ["ada", "bob"] {
        let answer = (200, json!({ "member_id": name }));
        world.on("DELETE", &format!("{path}/{name}"), [answer]);
    }
    let run = |members: &[&str]| -> (Value, Vec<Option<String>>) {
        let before = world.changes().len();
        let words = ["--idempotency-key", "k", "--output", "json"];
        let ran = world.run(&[&["member", "remove"][..], members, &words[..]].concat());
        let printed = serde_json::from_str(&ran.ok().out).expect("JSON");
        let made = &world.changes()[before..];
        (printed, made.iter().map(|one| one.key.clone()).collect())
    };
    let key = |key: &str| Some(key.to_owned());
    let both = ["user:ada", "user:bob"];
    let gone = |name: &str| json!({ "member": name, "gone": true });

    world.get(&path, json!({ "members": [member("bob"), member("ada")] }));
    let (printed, keys) = run(&both);
    let expected = json!({ "members": [{ "member_id": "ada" }, { "member_id": "bob" }] });
    assert_eq!((printed, keys), (expected, vec![key("k-1"), key("k-2")]));

    // the first is gone: the second keeps its key, and the answer its shape
    world.get(&path, json!({ "members": [member("bob")] }));
    let (printed, keys) = run(&both);
    let expected = json!({ "members": [gone("user:ada"), { "member_id": "bob" }] });
    assert_eq!((printed, keys), (expected, vec![key("k-2")]));

    // a single one has the key itself, and its answer is no list, also when it is gone
    let (printed, keys) = run(&["user:bob"]);
    let expected = json!({ "member_id": "bob" });
    assert_eq!((printed, keys), (expected, vec![key("k")]));
    world.get(&path, json!({ "members": [] }));
    let (printed, keys) = run(&["user:bob"]);
    assert_eq!((printed, keys), (gone("user:bob"), vec![]));
}

#[test]
fn members_of_an_organisation_are_managed_by_the_same_commands() {
    let world = world();
    let organisation = "01930000-0003-7000-8000-000000000003";
    world.get(
        "/api/v1/organisations",
        json!({ "organisations": [{ "id": organisation, "slug": "acme" }] }),
    );
    let path = format!("/api/v1/organisations/{organisation}/members");
    let one = format!("{path}/{MEMBER}");
    let invitations = format!("/api/v1/organisations/{organisation}/invitations");
    world.get(&path, json!({ "members": [{ "member_id": MEMBER, "principal": "user:bob", "role": "member", "etag": "e1" }] }));
    world.on("POST", &path, [(200, json!({}))]);
    world.on("PATCH", &one, [(200, json!({}))]);
    world.on("DELETE", &one, [(200, json!({}))]);
    let run = |words: &[&str]| {
        let command = [words, &["--organisation", "acme"]].concat();
        world.run(&command).ok().out
    };
    assert!(run(&["member", "list"]).contains("user:bob"));
    run(&["member", "add", "user:mia", "--role", "viewer"]);
    let body = json!({ "principal": "user:mia", "role": "viewer" });
    assert_eq!(last(&world), ("POST".into(), path.clone(), body));
    run(&["member", "set-role", "user:bob", "owner"]);
    let body = json!({ "role": "owner", "etag": "e1" });
    assert_eq!(last(&world), ("PATCH".into(), one.clone(), body));
    run(&["member", "remove", "user:bob"]);
    assert_eq!(last(&world).1, format!("{one}?etag=e1"));
    world.on(
        "POST",
        &invitations,
        [(200, json!({ "id": "i", "token": "once" }))],
    );
    let said = run(&["member", "invite", "dan@example.com"]);
    assert!(said.contains("/join#once"), "{said}");
    assert_eq!(last(&world).1, invitations);
    world.get(
        &invitations,
        json!({ "invitations": [{ "id": "i", "email": "dan@example.com", "state": "pending" }] }),
    );
    assert!(run(&["member", "invitation", "list"]).contains("dan@example.com"));
    let both = ["member", "list", "--organisation", "acme", "--project", "p"];
    assert_eq!(world.run(&both).code, 2);
}

#[test]
fn operators_list_the_projects_of_all_organisations() {
    let world = world();
    let all = "/api/v1/admin/projects";
    let organisation = "01930000-0003-7000-8000-000000000003";
    world.get(
        "/api/v1/admin/organisations",
        json!({ "organisations": [{ "id": organisation, "slug": "acme" }] }),
    );
    world.get(all, json!({ "projects": [{ "id": PROJECT, "slug": "vision", "organisation": "acme", "state": "suspended", "state_reason": "unpaid" }] }));
    let said = world.run(&["admin", "project", "list"]).ok().out;
    for part in ["vision", "acme", "suspended", "unpaid", PROJECT] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let flags = ["--organisation", "acme", "--state", "suspended"];
    let more = ["--filter", "slug:vis", "--sort", "slug"];
    let list = ["admin", "project", "list"];
    world.run(&[&list[..], &flags, &more].concat()).ok();
    let seen = world.seen().into_iter().rev();
    let mut seen = seen.filter(|seen| seen.target.starts_with(all));
    let asked = seen.next().expect("asked");
    assert_eq!(asked.authorization.as_deref(), Some("Bearer admin-token"));
    for part in [
        &format!("organisation_id={organisation}"),
        "state=suspended",
        "filter=slug%3Avis",
        "order_by=slug",
    ] {
        assert!(asked.target.contains(part), "{part}: {}", asked.target);
    }
    world.get(all, json!({ "projects": [] }));
    let said = world.run(&["admin", "project", "list"]).ok().out;
    assert!(said.contains("No project matches"), "{said}");
}

#[test]
fn a_command_that_is_only_for_operators_is_found_where_it_is() {
    let world = world();
    for (typed, command) in [
        (&["node", "show", "gpu-07"][..], "gpuaas admin node show"),
        (&["principal", "list"], "gpuaas admin principal list"),
    ] {
        let ran = world.run(typed);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains(command), "{}", ran.err);
    }
}

#[test]
fn an_invitation_is_a_link_that_is_printed_once_and_accepted_from_standard_input() {
    let world = world();
    let path = format!("/api/v1/projects/{PROJECT}/invitations");
    world.on(
        "POST",
        &path,
        [
            (200, json!({ "id": "i", "token": "once" })),
            (200, json!({ "id": "i" })),
        ],
    );
    let invite = ["member", "invite", "dan@example.com", "--role", "billing"];
    let ran = world.run(&invite).ok();
    assert!(
        ran.out.contains(&format!("{}/join#once", world.url())),
        "{ran:?}"
    );
    assert_eq!(
        last(&world).2,
        json!({ "email": "dan@example.com", "role": "billing" })
    );
    let quiet = [&invite[..], &["-q"]].concat();
    let whole = [&invite[..], &["--output", "json"]].concat();
    for again in [&invite[..], &quiet, &whole] {
        let ran = world.run(again);
        assert!(
            ran.code == 1 && ran.out.is_empty() && ran.err.contains("not shown again"),
            "{ran:?}"
        );
        assert!(ran.err.contains("gpuaas member revoke i"), "{ran:?}");
    }
    world.on(
        "POST",
        &path,
        [(200, json!({ "id": "i", "token": "again" }))],
    );
    let ran = world.run(&quiet).ok();
    assert_eq!(ran.out, format!("{}/join#again\n", world.url()), "alone");
    world.on(
        "POST",
        "/api/v1/invitations:accept",
        [(200, json!({ "role": "billing", "target": "acme/vision" }))],
    );
    std::fs::write(world.path("link"), format!("{}/join#once\n", world.url())).expect("write");
    let input = std::fs::File::open(world.path("link")).expect("open");
    let ran = world
        .command(&["member", "accept"])
        .stdin(input)
        .output()
        .expect("it runs");
    assert!(String::from_utf8_lossy(&ran.stdout).contains("billing of acme/vision"));
    assert_eq!(last(&world).2, json!({ "token": "once" }));
}

#[test]
fn projects_are_listed_and_suspended_with_a_reason() {
    let world = world();
    world.get(
        "/api/v1/projects",
        json!({ "projects": [{ "id": PROJECT, "slug": "vision", "organisation": "acme", "role": "owner", "state": "active" }] }),
    );
    assert!(world.run(&["project", "list"]).ok().out.contains("acme"));
    let unpaid = json!({ "id": PROJECT, "slug": "vision", "organisation": "acme", "state": "suspended", "state_reason": "unpaid since May" });
    world.get("/api/v1/projects", json!({ "projects": [unpaid] }));
    world.get(&format!("/api/v1/projects/{PROJECT}"), unpaid);
    world.get("/api/v1/organisations", json!({ "organisations": [{ "id": "o1", "slug": "acme", "state": "suspended", "state_reason": "unpaid since May" }] }));
    for shown in [
        &["project", "list"][..],
        &["project", "show", PROJECT],
        &["organisation", "list"],
    ] {
        let ran = world.run(shown).ok();
        assert!(
            ran.out.contains("suspended") && ran.out.contains("unpaid since May"),
            "{shown:?}: {ran:?}"
        );
    }
    let path = format!("/api/v1/projects/{PROJECT}:suspend");
    world.on("POST", &path, [(200, json!({ "id": PROJECT }))]);
    world
        .run(&["project", "suspend", "vision", "--reason", "unpaid"])
        .ok();
    assert_eq!(
        last(&world),
        ("POST".into(), path, json!({ "reason": "unpaid" }))
    );
    world.get(
        "/api/v1/organisations",
        json!({ "organisations": [{ "id": "o1", "slug": "acme" }] }),
    );
    world.on(
        "POST",
        "/api/v1/projects",
        [(200, json!({ "id": PROJECT }))],
    );
    world
        .run(&["project", "create", "speech", "--organisation", "acme"])
        .ok();
    assert_eq!(last(&world).2["organisation_id"], "o1");
}
