//! Service accounts and their API keys, organisations, and the user's own SSH key by default.
use crate::support::{World, allocation};
use serde_json::{Value, json};

const PROJECT: &str = "01930000-0007-7000-8000-000000000007";
const ACCOUNT: &str = "01930000-0004-7000-8000-000000000004";
const API_KEY: &str = "01930000-0003-7000-8000-000000000003";

fn world() -> World {
    let world = World::new();
    world.get(
        "/api/v1/whoami",
        json!({ "projects": [{ "id": PROJECT, "slug": "vision" }] }),
    );
    world.get(
        &accounts(),
        json!({ "service_accounts": [
            { "id": ACCOUNT, "slug": "ci", "role": "member", "principal": "service:ci.1", "description": "Pipelines" },
            { "id": "a2", "slug": "old", "role": "viewer", "disable_time": "2026-01-31T12:00:00Z" },
        ] }),
    );
    world
}

fn accounts() -> String {
    format!("/api/v1/projects/{PROJECT}/service-accounts")
}

fn keys() -> String {
    format!("{}/{ACCOUNT}/api-keys", accounts())
}

fn last(world: &World) -> (String, String, Value) {
    let sent = world.changes().pop().expect("sent");
    assert!(sent.key.is_some());
    assert_eq!(sent.authorization.as_deref(), Some("Bearer user-token"));
    (sent.method, sent.target, sent.body)
}

#[test]
fn service_accounts_are_created_listed_and_disabled_by_their_slugs() {
    let world = world();
    let ran = world.run(&["service-account", "list"]).ok();
    assert!(
        ran.out.contains("service:ci.1") && ran.out.contains("disabled"),
        "{ran:?}"
    );
    world.on("POST", &accounts(), [(200, json!({ "id": "a3" }))]);
    let create = [
        "service-account",
        "create",
        "etl",
        "--role",
        "viewer",
        "--project",
        "vision",
    ];
    let ran = world.run(&create).ok();
    assert!(ran.out.contains("gpuaas api-key create etl"), "{ran:?}");
    let body = json!({ "slug": "etl", "role": "viewer" });
    assert_eq!(last(&world), ("POST".into(), accounts(), body));
    for verb in ["disable", "enable"] {
        let path = format!("{}/{ACCOUNT}:{verb}", accounts());
        world.on("POST", &path, [(200, json!({ "id": ACCOUNT }))]);
        let ran = world.run(&["service-account", verb, "ci"]).ok();
        assert_eq!(ran.out, format!("ci is {verb}d.\n"));
        assert_eq!(last(&world).1, path);
    }
    let path = format!("{}/{ACCOUNT}", accounts());
    world.on("DELETE", &path, [(200, json!({}))]);
    world.run(&["service-account", "delete", ACCOUNT]).ok();
    assert_eq!(last(&world).0, "DELETE");
    let ran = world.run(&["service-account", "disable", "cl"]);
    assert!(
        ran.code == 3 && ran.err.contains("did you mean ci?"),
        "{ran:?}"
    );
    world.get(&accounts(), json!({ "service_accounts": [] }));
    let ran = world.run(&["service-account", "list"]).ok();
    assert!(ran.out.contains("gpuaas service-account create"), "{ran:?}");
}

#[test]
fn an_api_key_is_printed_once_and_alone() {
    let world = world();
    let made = json!({ "id": API_KEY, "key": "gpuaas_1_secret", "prefix": "gpuaas_1" });
    let again = json!({ "id": API_KEY, "prefix": "gpuaas_1" });
    world.on("POST", &keys(), [(200, made.clone()), (200, again)]);
    let create = [
        "api-key", "create", "ci", "--scope", "read", "--scope", "write",
    ];
    let until = ["--expires", "2027-01-31T12:00:00Z", "--name", "pipeline"];
    let ran = world.run(&[&create[..], &until].concat()).ok();
    assert_eq!(ran.out, "gpuaas_1_secret\n", "nothing else is printed");
    assert!(ran.err.contains("shown once"), "{ran:?}");
    let body = json!({ "display_name": "pipeline", "scopes": ["read", "write"], "expire_time": "2027-01-31T12:00:00Z" });
    assert_eq!(last(&world), ("POST".into(), keys(), body));
    // without the key nothing is printed, in whatever form, and nobody is told of an idempotency key that was not given
    for form in [
        &[][..],
        &["-q"],
        &["--output", "json"],
        &["--output", "yaml"],
    ] {
        let ran = world.run(&[&create[..], form].concat());
        assert!(
            ran.code == 1 && ran.out.is_empty() && ran.err.contains("not shown again"),
            "{form:?}: {ran:?}"
        );
        let advice = format!("gpuaas api-key rotate ci {API_KEY}");
        assert!(ran.err.contains(&advice), "{ran:?}");
        assert!(!ran.err.contains("idempotency"), "{ran:?}");
    }
    // what is advised works as it is shown, where the project was given by a flag
    let elsewhere = ["--project", "vision"];
    let ran = world.run(&[&create[..], &elsewhere].concat());
    let advice = format!("gpuaas api-key rotate ci {API_KEY} --project vision\n");
    assert!(ran.err.contains(&advice), "{ran:?}");
    assert_eq!(last(&world).2, json!({ "scopes": ["read", "write"] }));
    world.on("POST", &keys(), [(200, made)]);
    // a script keeps the key as it is, since nobody sees it again
    for quiet in [&["-q"][..], &["--output", "name"]] {
        let ran = world.run(&[&create[..], quiet].concat()).ok();
        assert_eq!(ran.out, "gpuaas_1_secret\n", "{quiet:?}");
    }
    let ran = world
        .run(&[&create[..], &["--output", "json"]].concat())
        .ok();
    let printed: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(printed["key"], "gpuaas_1_secret");
    for bad in [
        &["api-key", "create", "ci"][..],
        &["api-key", "create", "ci", "--scope", "root"],
    ] {
        assert_eq!(world.run(bad).code, 2, "{bad:?}");
    }
}

#[test]
fn api_keys_are_listed_with_last_use_rotated_and_disabled_by_name() {
    let world = world();
    world.get(
        &keys(),
        json!({ "api_keys": [
            { "id": API_KEY, "display_name": "pipeline", "prefix": "gpuaas_1", "scopes": ["read", "write"], "last_used_time": "2026-01-31T12:00:00Z" },
            { "id": "k2", "display_name": "gone", "prefix": "gpuaas_2", "scopes": ["read"], "expire_time": "2020-01-31T12:00:00Z" },
            { "id": "k3", "display_name": "gone", "prefix": "gpuaas_3", "scopes": ["read"], "disable_time": "2026-01-31T12:00:00Z" },
        ] }),
    );
    let ran = world.run(&["api-key", "list", "ci"]).ok();
    for shown in [
        "read,write",
        "2026-01-31",
        "expired",
        "disabled",
        "never",
        "active",
    ] {
        assert!(ran.out.contains(shown), "{shown}: {}", ran.out);
    }
    let rotate = format!("{}/{API_KEY}:rotate", keys());
    world.on(
        "POST",
        &rotate,
        [(200, json!({ "id": "k4", "key": "gpuaas_4_secret" }))],
    );
    let ran = world
        .run(&["api-key", "rotate", "ci", "pipeline", "--overlap", "1h"])
        .ok();
    assert_eq!(ran.out, "gpuaas_4_secret\n");
    let quiet = [
        "api-key",
        "rotate",
        "ci",
        "pipeline",
        "--overlap",
        "1h",
        "-q",
    ];
    assert_eq!(world.run(&quiet).ok().out, "gpuaas_4_secret\n");
    assert_eq!(
        last(&world),
        ("POST".into(), rotate, json!({ "overlap": "3600s" }))
    );
    // what never ends may not go on without an end where the organisation limits it
    let end = ["--expires", "2027-01-31T12:00:00Z"];
    let rotate = ["api-key", "rotate", "ci", "pipeline"];
    world.run(&[&rotate[..], &end].concat()).ok();
    let body = json!({ "expire_time": "2027-01-31T12:00:00Z" });
    assert_eq!(last(&world).2, body);
    let disable = format!("{}/{API_KEY}:disable", keys());
    world.on("POST", &disable, [(200, json!({ "id": API_KEY }))]);
    let ran = world.run(&["api-key", "disable", "ci", "gpuaas_1"]).ok();
    assert_eq!(ran.out, "gpuaas_1 is disabled.\n");
    let other = format!("{}/k2:disable", keys());
    world.on("POST", &other, [(200, json!({ "id": "k2" }))]);
    let both = ["api-key", "disable", "ci", "pipeline", "gpuaas_2"];
    let ran = world.run(&both).ok();
    assert_eq!(ran.out, "pipeline is disabled.\ngpuaas_2 is disabled.\n");
    assert_eq!(last(&world).1, other);
    let changes = world.changes().len();
    let ran = world.run(&["api-key", "disable", "ci", "pipeline", "nothing"]);
    assert_eq!((ran.code, world.changes().len()), (3, changes), "{ran:?}");
    assert_eq!(
        world.run(&["api-key", "disable", "ci", "gone"]).code,
        2,
        "two have this name"
    );
    assert_eq!(world.run(&["api-key", "disable", "ci", "nothing"]).code, 3);
    for (given, near) in [("pipelin", "pipeline"), ("gpuaas-3", "gpuaas_3")] {
        let ran = world.run(&["api-key", "rotate", "ci", given]);
        let suggested = format!("did you mean {near}?");
        assert!(
            ran.code == 3 && ran.err.contains(&suggested),
            "{given}: {ran:?}"
        );
    }
    world.get(&keys(), json!({ "api_keys": [] }));
    let ran = world.run(&["api-key", "list", "ci"]).ok();
    assert!(
        ran.out.contains("gpuaas api-key create ci --scope read\n"),
        "{ran:?}"
    );
    let elsewhere = ["--project", "vision"];
    for (command, advice) in [
        (
            &["api-key", "list", "ci"][..],
            "gpuaas api-key create ci --scope read --project vision",
        ),
        (
            &["api-key", "disable", "ci", "nothing"],
            "gpuaas api-key list ci --project vision",
        ),
        (
            &["api-key", "list", "nobody"],
            "gpuaas service-account list --project vision",
        ),
    ] {
        let ran = world.run(&[command, &elsewhere].concat());
        let all = format!("{}{}", ran.out, ran.err);
        assert!(all.contains(advice), "{advice}: {ran:?}");
    }
}

#[test]
fn organisations_are_listed_renamed_and_show_their_members() {
    let world = world();
    world.get(
        "/api/v1/organisations",
        json!({ "organisations": [{ "id": "o1", "slug": "acme", "role": "owner", "state": "active", "display_name": "Acme" }] }),
    );
    assert!(
        world
            .run(&["organisation", "list"])
            .ok()
            .out
            .contains("acme")
    );
    world.on(
        "PATCH",
        "/api/v1/organisations/o1",
        [(200, json!({ "id": "o1" }))],
    );
    world
        .run(&["organisation", "rename", "acme", "Acme Research"])
        .ok();
    assert_eq!(last(&world).2, json!({ "display_name": "Acme Research" }));
    world.get(
        "/api/v1/organisations/o1/members",
        json!({ "members": [{ "member_id": "m1", "principal": "user:bob", "role": "owner" }] }),
    );
    let ran = world.run(&["organisation", "member", "list", "acme"]).ok();
    assert!(ran.out.contains("user:bob"), "{ran:?}");
    let unknown = ["organisation", "member", "list", "acne"];
    assert_eq!(world.run(&unknown).code, 3);
}

#[test]
fn groups_of_a_provider_are_listed_mapped_and_unmapped() {
    let world = world();
    world.get(
        "/api/v1/organisations",
        json!({ "organisations": [{ "id": "o1", "slug": "acme" }] }),
    );
    world.get(
        "/api/v1/organisations/o1/scim/groups",
        json!({ "groups": [{ "id": "g1", "display_name": "ML engineers", "member_count": "3",
                             "mappings": [{ "id": "m1", "project": "training", "project_id": "p1", "role": "member" }] }] }),
    );
    let key = json!({ "keys": [{ "project": "people", "project_id": "p1", "service_account": "idp",
        "api_key": { "id": "k1", "service_account_id": "s1", "prefix": "gpuaas_1_k1", "creator": "user:ada",
                     "last_used_time": "2026-01-31T12:00:00Z" } }] });
    world.get("/api/v1/organisations/o1/scim/keys", key);
    let ran = world
        .run(&["organisation", "scim", "key", "list", "acme"])
        .ok();
    for part in ["gpuaas_1_k1", "people/idp", "active", "never", "user:ada"] {
        assert!(ran.out.contains(part), "{part}: {ran:?}");
    }
    let path = "/api/v1/projects/p1/service-accounts/s1/api-keys/k1:disable";
    world.on("POST", path, [(200, json!({ "id": "k1" }))]);
    let disable = [
        "organisation",
        "scim",
        "key",
        "disable",
        "acme",
        "gpuaas_1_k1",
    ];
    let ran = world.run(&disable).ok();
    assert_eq!(
        (ran.out.as_str(), last(&world).1.as_str()),
        ("gpuaas_1_k1 is disabled.\n", path)
    );
    let unknown = ["organisation", "scim", "key", "disable", "acme", "k2"];
    assert_eq!(world.run(&unknown).code, 3);
    let ran = world
        .run(&["organisation", "scim", "group", "list", "acme"])
        .ok();
    assert!(ran.out.contains("member of training"), "{ran:?}");
    let project = "019a0000-0000-7000-8000-000000000001";
    let mappings = "/api/v1/organisations/o1/scim/groups/g1/mappings";
    world.on("POST", mappings, [(200, json!({ "id": "m2" }))]);
    let map = [
        "organisation",
        "scim",
        "group",
        "map",
        "acme",
        "ML engineers",
        "--project",
        project,
        "--role",
        "viewer",
    ];
    world.run(&map).ok();
    assert_eq!(
        last(&world).2,
        json!({ "target_project_id": project, "role": "viewer" })
    );
    world.on("DELETE", &format!("{mappings}/m1"), [(200, json!({}))]);
    world
        .run(&[
            "organisation",
            "scim",
            "group",
            "unmap",
            "acme",
            "g1",
            "--project",
            "training",
        ])
        .ok();
    assert_eq!(last(&world).0, "DELETE");
    let unknown = [
        "organisation",
        "scim",
        "group",
        "unmap",
        "acme",
        "ML engineer",
        "--project",
        "training",
    ];
    assert_eq!(world.run(&unknown).code, 3);

    world.get(
        "/api/v1/admin/organisations",
        json!({ "organisations": [{ "id": "o1", "slug": "acme" }] }),
    );
    world.on(
        "PUT",
        "/api/v1/admin/organisations/o1/scim",
        [(200, json!({ "organisation_id": "o1" }))],
    );
    let set = [
        "admin",
        "scim",
        "set",
        "acme",
        "--issuer",
        "https://idp.example",
        "--subject",
        "external-id",
    ];
    world.run(&set).ok();
    let sent = world.changes().pop().expect("sent");
    assert_eq!(
        sent.body,
        json!({ "issuer": "https://idp.example", "subject_attribute": "external_id" })
    );
}

/// A home folder with an SSH key.
fn home(world: &World, key: Option<&str>) -> std::path::PathBuf {
    let home = world.path("home");
    std::fs::create_dir_all(home.join(".ssh")).expect("a folder");
    if let Some(line) = key {
        std::fs::write(home.join(".ssh/id_ed25519.pub"), line).expect("write");
    }
    home
}

#[test]
fn the_users_own_key_is_kept_by_default_under_the_name_of_its_comment() {
    let world = world();
    let home = home(&world, Some("ssh-ed25519 AAAA alice@laptop\n"));
    world.on("POST", "/api/v1/ssh-keys", [(200, json!({ "id": "k" }))]);
    for verb in ["create", "add"] {
        let mut command = world.command(&["ssh-key", verb]);
        let ran = command.env("HOME", &home).output().expect("it runs");
        let reported = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{reported}");
        assert!(
            reported.contains(".ssh/id_ed25519.pub") && reported.contains("--file FILE"),
            "{reported}"
        );
        let body = json!({ "name": "alice-laptop", "public_key": "ssh-ed25519 AAAA alice@laptop" });
        assert_eq!(last(&world).2, body);
    }
}

#[test]
fn a_launch_without_a_key_in_ssh_takes_the_kept_ones_and_says_so() {
    let world = world();
    let home = home(&world, None);
    world.get(
        "/api/v1/regions",
        json!({ "regions": [{ "code": "lab", "enabled": true }] }),
    );
    world.get(
        "/api/v1/ssh-keys",
        json!({ "ssh_keys": [{ "id": "k", "name": "laptop" }] }),
    );
    world.on(
        "POST",
        "/api/v1/allocations",
        [(200, allocation("requested"))],
    );
    let launch = ["launch", "--sku", "s", "--image", "i"];
    let mut command = world.command(&launch);
    let ran = command.env("HOME", &home).output().expect("it runs");
    let reported = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success() && reported.contains("using your stored keys: laptop"),
        "{reported}"
    );
    let body = last(&world).2;
    assert_eq!(
        (&body["ssh_key_names"], body.get("ssh_public_keys")),
        (&json!(["laptop"]), None)
    );
    world.get("/api/v1/ssh-keys", json!({ "ssh_keys": [] }));
    let mut command = world.command(&launch);
    let ran = command.env("HOME", &home).output().expect("it runs");
    assert_eq!(ran.status.code(), Some(2), "no key at all");
}

#[test]
fn a_member_gets_a_grant_for_one_allocation_by_its_name() {
    let world = world();
    let mut vm = allocation("active");
    vm["config"]["name"] = "train".into();
    world.get(
        "/api/v1/allocations",
        json!({ "allocations": [vm.clone()] }),
    );
    let vm = vm["id"].as_str().expect("an id");
    let grants = format!("/api/v1/projects/{PROJECT}/allocation-grants");
    let made = json!({ "id": "g1", "expire_time": "2027-01-31T12:00:00Z" });
    world.on("POST", &grants, [(200, made)]);
    let add = [
        "grant",
        "add",
        "train",
        "user:bob",
        "--permission",
        "serial-log",
        "--until",
        "2027-01-31T12:00:00Z",
    ];
    let ran = world.run(&add).ok();
    assert!(
        ran.out
            .starts_with("user:bob has the serial-log of train, until "),
        "{ran:?}"
    );
    let body = json!({ "allocation_id": vm, "principal": "user:bob", "permission": "serial_log",
        "expire_time": "2027-01-31T12:00:00Z" });
    assert_eq!(last(&world), ("POST".into(), grants.clone(), body));
    let listed = json!({ "grants": [{ "id": "g1", "allocation_id": vm, "principal": "user:bob",
        "permission": "serial_log", "creator": "user:olga", "expire_time": "2027-01-31T12:00:00Z" }] });
    world.get(&grants, listed);
    let ran = world.run(&["grant", "list"]).ok();
    assert!(
        ran.out.contains("serial-log") && ran.out.contains("user:olga"),
        "{ran:?}"
    );
    let one = format!("{grants}/g1");
    world.on("DELETE", &one, [(200, json!({}))]);
    world.run(&["grant", "delete", "g1"]).ok();
    assert_eq!(last(&world).1, one);
}

#[test]
fn guardrails_of_an_organisation_are_shown_and_set() {
    let world = world();
    world.get(
        "/api/v1/organisations",
        json!({ "organisations": [{ "id": "o1", "slug": "acme" }] }),
    );
    let target = "/api/v1/organisations/o1/guardrails";
    world.get(
        target,
        json!({ "organisation_id": "o1", "terminals_disabled": true, "max_api_key_days": 30,
                "allowed_regions": ["eu-1", "eu-2"] }),
    );
    let ran = world
        .run(&["organisation", "guardrail", "show", "acme"])
        .ok();
    let row = |name: &str| {
        let line = ran.out.lines().find(|line| line.starts_with(name));
        let words = line.unwrap_or_default().split_whitespace().skip(1);
        words.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("terminals_disabled"), "true", "{ran:?}");
    assert_eq!(row("max_api_key_days"), "30", "{ran:?}");
    assert_eq!(row("allowed_regions"), "eu-1, eu-2", "{ran:?}");
    assert_eq!(row("allowed_skus"), "all", "{ran:?}");

    world.on("PATCH", target, [(200, json!({ "organisation_id": "o1" }))]);
    let set = ["organisation", "guardrail", "set", "acme"];
    let flags = [
        "--terminals-disabled",
        "false",
        "--allowed-regions",
        "",
        "--allowed-skus",
        "small, large",
    ];
    world.run(&[&set[..], &flags[..]].concat()).ok();
    assert_eq!(
        last(&world).2,
        json!({ "terminals_disabled": false, "allowed_regions": {}, "allowed_skus": { "names": ["small", "large"] } })
    );
    let ran = world.run(&set);
    assert_eq!(ran.code, 2, "nothing to set: {ran:?}");
}
