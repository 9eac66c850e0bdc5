use std::collections::BTreeMap;
use std::fs;

use uuid::Uuid;

use super::load::sources;
use super::*;
use crate::contract::route::RouteTable;
use crate::store::{Guardrails, NO_GUARDRAILS, PlatformRole, Role, Scope};

fn routes() -> RouteTable {
    crate::routes().expect("served")
}

fn own() -> Policies {
    Policies::open(None, &routes()).expect("the embedded policies are good")
}

fn with(text: &str) -> Result<Policies, PolicyError> {
    let mut all = sources(None).expect("embedded");
    all.push(Source {
        name: "more.cedar".to_owned(),
        text: text.to_owned(),
    });
    Policies::new(&all, &routes())
}

const USER: Who<'_> = Who {
    name: "user:alice",
    platform_role: None,
    scopes: None,
    by_key: false,
};

fn project(role: Role) -> Resource<'static> {
    Resource::Project {
        id: Uuid::from_u128(1),
        organisation: Uuid::from_u128(2),
        role: Some(role),
        has_grant: false,
        guardrails: &NO_GUARDRAILS,
        asked: Asked::default(),
    }
}

/// The table of `docs/how-to/roles.md`, by one action of each group.
#[test]
fn h_19_roles_do_what_their_policies_say() {
    let policies = own();
    use Role::{Billing, Member, Owner, Viewer};
    for (action, roles) in [
        ("allocation.get", vec![Owner, Member, Viewer]),
        ("usage.list", vec![Owner, Member, Viewer, Billing]),
        ("allocation.create", vec![Owner, Member]),
        ("terminal.create", vec![Owner, Member]),
        ("terminal.replay", vec![Owner, Member]),
        ("serial_log.read", vec![Owner, Member]),
    ] {
        for role in [Owner, Member, Viewer, Billing] {
            let verdict = policies.decide(USER, action, project(role));
            assert_eq!(
                verdict.is_allowed(),
                roles.contains(&role),
                "{action} {role:?}: {verdict:?}"
            );
        }
        let stranger = Resource::Project {
            id: Uuid::nil(),
            organisation: Uuid::nil(),
            role: None,
            has_grant: false,
            guardrails: &NO_GUARDRAILS,
            asked: Asked::default(),
        };
        let verdict = policies.decide(USER, action, stranger);
        assert_eq!(verdict, Verdict::NotPermitted, "{action} of a stranger");
    }
    use PlatformRole::{Admin, Auditor, Operator};
    for (action, roles) in [
        ("admin.fleet.list", vec![Admin, Operator, Auditor]),
        ("admin.node.drain", vec![Admin, Operator]),
        ("admin.price.create", vec![Admin]),
        ("admin.quota.put", vec![Admin]),
        ("sku.list", vec![Admin, Operator, Auditor]),
    ] {
        for role in [Admin, Operator, Auditor] {
            let who = Who {
                platform_role: Some(role),
                ..USER
            };
            let verdict = policies.decide(who, action, Resource::Platform);
            assert_eq!(
                verdict.is_allowed(),
                roles.contains(&role),
                "{action} {role:?}: {verdict:?}"
            );
        }
    }
    let everybody = policies.decide(USER, "sku.list", Resource::Platform);
    assert!(everybody.is_allowed());
    let unknown = policies.decide(USER, "no.such", Resource::Platform);
    assert_eq!(unknown, Verdict::NotPermitted);
}

#[test]
fn a_key_does_what_its_account_and_its_scopes_allow_both() {
    let policies = own();
    for (scopes, action, role, expected) in [
        (vec![Scope::Read], "allocation.get", Role::Owner, true),
        (vec![Scope::Read], "allocation.create", Role::Owner, false),
        (vec![Scope::Read], "terminal.create", Role::Owner, false),
        (vec![Scope::Read], "serial_log.read", Role::Owner, false),
        (vec![Scope::Write], "allocation.create", Role::Member, true),
        (vec![Scope::Write], "allocation.get", Role::Member, false),
        (vec![Scope::Write], "allocation.create", Role::Viewer, false),
        (vec![Scope::Billing], "usage.list", Role::Billing, true),
        (Vec::new(), "allocation.get", Role::Owner, false),
        (Vec::new(), "sku.list", Role::Owner, true),
    ] {
        let who = Who {
            name: "service:ci",
            platform_role: None,
            scopes: Some(&scopes),
            by_key: true,
        };
        let resource = match action {
            "sku.list" => Resource::Platform,
            _ => project(role),
        };
        let verdict = policies.decide(who, action, resource);
        assert_eq!(
            verdict.is_allowed(),
            expected,
            "{scopes:?} {action}: {verdict:?}"
        );
    }
    let who = Who {
        name: "service:ci",
        platform_role: None,
        scopes: Some(&[Scope::Read]),
        by_key: true,
    };
    assert_eq!(
        policies.decide(who, "allocation.create", project(Role::Owner)),
        Verdict::Forbidden(vec!["scope-write".to_owned()])
    );
}

/// What an owner grants in one allocation lifts no guardrail, no scope of a key, and nothing but what it is about.
#[test]
fn who_has_a_grant_for_an_allocation_is_bound_by_what_forbids() {
    let granted = Resource::Project {
        id: Uuid::from_u128(1),
        organisation: Uuid::from_u128(2),
        role: Some(Role::Billing),
        has_grant: true,
        guardrails: &NO_GUARDRAILS,
        asked: Asked::default(),
    };
    let policies = own();
    for (action, expected) in [
        ("terminal.create", true),
        ("serial_log.read", true),
        ("allocation.get", true),
        ("allocation.list", false),
        ("allocation.release", false),
        ("allocation_grant.create", false),
        ("project_member.add", false),
    ] {
        let verdict = policies.decide(USER, action, granted);
        assert_eq!(verdict.is_allowed(), expected, "{action}: {verdict:?}");
    }
    let key = Who {
        name: "service:ci",
        platform_role: None,
        scopes: Some(&[Scope::Read]),
        by_key: true,
    };
    assert_eq!(
        policies.decide(key, "terminal.create", granted),
        Verdict::Forbidden(vec!["scope-terminal".to_owned()])
    );
    let guarded =
        with("@id(\"none\") forbid (principal, action in Action::\"terminal\", resource);");
    assert_eq!(
        guarded
            .expect("good")
            .decide(USER, "terminal.create", granted),
        Verdict::Forbidden(vec!["none".to_owned()])
    );
}

#[test]
fn a_guardrail_wins_over_every_permission() {
    let organisation = Uuid::from_u128(2);
    let policies = with(&format!(
        "@id(\"no-terminals-at-acme\")
         forbid (principal, action in Action::\"terminal\", resource)
         when {{ resource in Organisation::\"{organisation}\" }};"
    ))
    .expect("good");
    let verdict = policies.decide(USER, "terminal.create", project(Role::Owner));
    assert_eq!(
        verdict,
        Verdict::Forbidden(vec!["no-terminals-at-acme".to_owned()])
    );
    let elsewhere = Resource::Project {
        id: Uuid::from_u128(1),
        organisation: Uuid::from_u128(3),
        role: Some(Role::Owner),
        has_grant: false,
        guardrails: &NO_GUARDRAILS,
        asked: Asked::default(),
    };
    assert!(
        policies
            .decide(USER, "terminal.create", elsewhere)
            .is_allowed()
    );
}

/// A project of an organisation with guardrails, as its owner has it.
fn guarded<'a>(guardrails: &'a Guardrails, asked: Asked<'static>) -> Resource<'a> {
    Resource::Project {
        id: Uuid::from_u128(1),
        organisation: Uuid::from_u128(2),
        role: Some(Role::Owner),
        has_grant: true,
        guardrails,
        asked,
    }
}

#[test]
fn each_guardrail_of_an_organisation_forbids_what_it_says_and_nothing_else() {
    let policies = own();
    let key = Who {
        name: "service:ci",
        platform_role: None,
        scopes: Some(&Scope::ALL),
        by_key: true,
    };
    let of_issuer = Who {
        by_key: false,
        ..key
    };
    let admin = Who {
        platform_role: Some(PlatformRole::Admin),
        ..USER
    };
    let nothing = Asked::default();
    let region = |region| Asked {
        region: Some(region),
        ..nothing
    };
    let sku = |sku| Asked {
        sku: Some(sku),
        ..nothing
    };
    let days = |days: i64| Asked {
        api_key_seconds: Some(days.saturating_mul(86_400)),
        ..nothing
    };
    type Set = fn(&mut Guardrails);
    let terminals: Set = |it| it.terminals_disabled = true;
    let logs: Set = |it| it.serial_logs_disabled = true;
    let ingress: Set = |it| it.ingress_mappings_disabled = true;
    let webhooks: Set = |it| it.webhooks_disabled = true;
    let keys: Set = |it| it.api_keys_disabled = true;
    let lifetime: Set = |it| it.max_api_key_days = 30;
    let regions: Set = |it| it.allowed_regions = vec!["eu-1".to_owned()];
    let skus: Set = |it| it.allowed_skus = vec!["small".to_owned()];
    for (set, who, action, asked, allowed) in [
        (terminals, USER, "terminal.create", nothing, false),
        (terminals, USER, "terminal.replay", nothing, true),
        (terminals, USER, "serial_log.read", nothing, true),
        (logs, USER, "serial_log.read", nothing, false),
        (logs, USER, "terminal.create", nothing, true),
        (ingress, USER, "ingress_mapping.create", nothing, false),
        (ingress, USER, "ingress_mapping.delete", nothing, true),
        (webhooks, USER, "webhook.create", nothing, false),
        (webhooks, admin, "webhook.create", nothing, false),
        (webhooks, USER, "webhook.update", nothing, false),
        (webhooks, USER, "webhook.ping", nothing, false),
        (webhooks, USER, "webhook.rotate_secret", nothing, false),
        (webhooks, USER, "webhook_delivery.redeliver", nothing, false),
        (webhooks, USER, "webhook.delete", nothing, true),
        (webhooks, USER, "webhook.list", nothing, true),
        (keys, USER, "api_key.create", nothing, false),
        (keys, admin, "api_key.rotate", nothing, false),
        (keys, USER, "api_key.disable", nothing, true),
        (keys, key, "allocation.get", nothing, false),
        (keys, key, "usage.list", nothing, false),
        (keys, key, "allocation.create", nothing, false),
        (keys, key, "terminal.create", nothing, false),
        (keys, key, "project.update", nothing, false),
        (keys, of_issuer, "allocation.create", nothing, true),
        (lifetime, USER, "api_key.create", days(31), false),
        (lifetime, USER, "api_key.rotate", days(i64::MAX), false),
        (lifetime, USER, "api_key.create", days(30), true),
        (lifetime, key, "allocation.create", nothing, true),
        (regions, USER, "allocation.create", region("us-1"), false),
        (regions, USER, "reservation.create", region("us-1"), false),
        (regions, USER, "allocation.create", region("eu-1"), true),
        (regions, USER, "allocation.create", sku("large"), true),
        (regions, USER, "allocation.release", nothing, true),
        (skus, USER, "allocation.create", sku("large"), false),
        (skus, USER, "reservation.create", sku("large"), false),
        (skus, USER, "reservation.create", sku("small"), true),
    ] {
        let mut guardrails = Guardrails::default();
        let free = policies.decide(who, action, guarded(&guardrails, asked));
        assert!(free.is_allowed(), "{action} without a guardrail: {free:?}");
        set(&mut guardrails);
        let verdict = policies.decide(who, action, guarded(&guardrails, asked));
        assert_eq!(verdict.is_allowed(), allowed, "{action}: {verdict:?}");
        let by = match &verdict {
            Verdict::Forbidden(by) => by.as_slice(),
            _ => &[],
        };
        let own = |id: &String| id.starts_with("organisation-guardrail-");
        assert!(by.iter().all(own) && by.is_empty() == allowed, "{by:?}");
    }
}

#[test]
fn guardrails_of_an_organisation_bind_what_is_done_to_it() {
    let policies = own();
    let guardrails = Guardrails {
        webhooks_disabled: true,
        api_keys_disabled: true,
        ..Guardrails::default()
    };
    let organisation = Resource::Organisation {
        id: Uuid::from_u128(2),
        role: Some(Role::Owner),
        guardrails: &guardrails,
    };
    let scopes = [Scope::Read, Scope::Manage, Scope::Scim];
    let key = Who {
        name: "service:ci",
        platform_role: None,
        scopes: Some(&scopes),
        by_key: true,
    };
    for (who, action, allowed) in [
        (USER, "organisation_webhook.create", false),
        (USER, "organisation_webhook.list", true),
        (USER, "organisation_guardrails.update", true),
        (key, "organisation.get", false),
        (key, "organisation_guardrails.update", false),
        // who leaves is taken out all the same
        (key, SCIM_READ, true),
        (key, SCIM_WRITE, true),
    ] {
        let verdict = policies.decide(who, action, organisation);
        assert_eq!(verdict.is_allowed(), allowed, "{action}: {verdict:?}");
    }
}

#[test]
fn guardrails_of_organisations_bind_beside_a_folder_of_policies() {
    let folder = tempfile::tempdir().expect("temp dir");
    let open = || Policies::open(Some(folder.path()), &routes()).expect("good");
    let all = "@id(\"all\") permit (principal, action, resource);";
    fs::write(folder.path().join("all.cedar"), all).expect("written");
    let guardrails = Guardrails {
        terminals_disabled: true,
        ..Guardrails::default()
    };
    let resource = guarded(&guardrails, Asked::default());
    let verdict = || open().decide(USER, "terminal.create", resource);
    assert!(
        matches!(verdict(), Verdict::Forbidden(_)),
        "{:?}",
        verdict()
    );
    // the operator's own file of that name counts in its place
    let own = "@id(\"none\") forbid (principal, action == Action::\"sku.list\", resource);";
    fs::write(folder.path().join("organisation-guardrails.cedar"), own).expect("written");
    assert!(verdict().is_allowed(), "{:?}", verdict());
}

#[test]
fn bad_policies_are_refused_by_id_and_place() {
    for (text, expected) in [
        (
            "@id(\"a\")\npermit (principal, action, resource) when { context.rank == 1 };",
            vec!["more.cedar:2:", "`a`", "rank"],
        ),
        (
            "@id(\"a\")\npermit (principal, action == Action::\"allocation.fly\", resource);",
            vec!["more.cedar:2:", "`a`", "allocation.fly"],
        ),
        (
            "@id(\"a\")\npermit (principal, action, resource) when { context has role && context.role == Role::\"boss\" };",
            vec!["more.cedar:2:", "`a`", "boss"],
        ),
        (
            "@id(\"a\")\npermit (principal, action, resource)\n  when { context has };",
            vec!["more.cedar:3:"],
        ),
        (
            "permit (principal, action, resource);",
            vec!["more.cedar", "needs an @id"],
        ),
        (
            "@id(\"members-work\")\npermit (principal, action, resource);",
            vec!["more.cedar", "members-work", "used twice"],
        ),
        (
            "@id(\"a\")\npermit (principal == ?principal, action, resource);",
            vec!["more.cedar", "template"],
        ),
    ] {
        let error = match with(text) {
            Ok(_) => panic!("{text}: taken"),
            Err(error) => error.to_string(),
        };
        for part in expected {
            assert!(error.contains(part), "{part:?} not in {error}");
        }
    }
}

#[test]
fn a_folder_counts_in_place_of_the_embedded_policies() {
    let folder = tempfile::tempdir().expect("temp dir");
    let open = || Policies::open(Some(folder.path()), &routes());
    assert!(matches!(open(), Err(PolicyError::NoPolicies(_))));
    fs::write(
        folder.path().join("all.cedar"),
        "@id(\"viewers-only\") permit (principal, action in Action::\"read\", resource) when { context has role };",
    )
    .expect("written");
    fs::write(folder.path().join("README.md"), "no policy").expect("written");
    let policies = open().expect("good");
    let allowed = |action| {
        policies
            .decide(USER, action, project(Role::Owner))
            .is_allowed()
    };
    assert!(allowed("allocation.get") && !allowed("allocation.create"));
    let missing = folder.path().join("missing");
    assert!(matches!(
        Policies::open(Some(&missing), &routes()),
        Err(PolicyError::Folder { .. })
    ));
}

#[test]
fn every_group_of_actions_is_in_the_schema() {
    // an action in a group that the kinds do not declare would make no schema
    let groups: std::collections::BTreeSet<_> = schema::actions(&routes()).into_values().collect();
    assert!(groups.len() > 6, "{groups:?}");
    for group in gpuaas_common::access::Group::ALL {
        let one = BTreeMap::from([("x.y".to_owned(), group)]);
        schema::schema(&one).unwrap_or_else(|error| panic!("{group:?}: {error:?}"));
    }
}
