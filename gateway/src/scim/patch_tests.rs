//! What Entra ID, Okta and the RFC send, and what becomes of it.
use super::*;
use crate::scim::schema::{GROUP_ATTRIBUTES, USER_ATTRIBUTES};

fn user() -> Value {
    json!({
        "userName": "alice", "externalId": "1", "active": true, "name": { "givenName": "A", "familyName": "B" },
        "emails": [{ "value": "a@example.com", "type": "work", "primary": true }],
    })
}

fn patched(
    attributes: &'static [Attribute],
    resource: Value,
    operations: &Value,
) -> std::result::Result<Value, String> {
    let Value::Object(mut resource) = resource else {
        return Err("no object".to_owned());
    };
    let request = json!({ "Operations": operations });
    let applied = Patch::parse(attributes, &request).and_then(|patch| patch.apply(&mut resource));
    applied.map_err(|error| error.reason().to_owned())?;
    Ok(Value::Object(resource))
}

/// Checks one operation on the user: what it makes of one attribute.
fn makes(operation: &Value, attribute: &str, expected: &Value) {
    let text = operation.to_string();
    let made = patched(&USER_ATTRIBUTES, user(), &json!([operation]))
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let found = made.get(attribute).cloned().unwrap_or(Value::Null);
    assert_eq!(found, *expected, "{text}");
}

#[test]
fn operations_change_what_they_point_at() {
    makes(
        &json!({ "op": "replace", "path": "active", "value": false }),
        "active",
        &json!(false),
    );
    // Entra ID
    makes(
        &json!({ "op": "Replace", "path": "active", "value": "False" }),
        "active",
        &json!(false),
    );
    // Okta
    makes(
        &json!({ "op": "replace", "value": { "active": false } }),
        "active",
        &json!(false),
    );
    makes(
        &json!({ "op": "add", "value": { "name.givenName": "C" } }),
        "name",
        &json!({ "givenName": "C", "familyName": "B" }),
    );
    makes(
        &json!({ "op": "remove", "path": "active" }),
        "active",
        &Value::Null,
    );
    makes(
        &json!({ "op": "remove", "path": "name.givenName" }),
        "name",
        &json!({ "familyName": "B" }),
    );
    makes(
        &json!({ "op": "remove", "path": "externalId" }),
        "externalId",
        &Value::Null,
    );
    makes(
        &json!({ "op": "add", "path": "urn:ietf:params:scim:schemas:core:2.0:User:displayName", "value": "Alice" }),
        "displayName",
        &json!("Alice"),
    );
    makes(
        &json!({ "op": "replace", "path": "emails[type eq \"work\"].value", "value": "b@example.com" }),
        "emails",
        &json!([{ "value": "b@example.com", "type": "work", "primary": true }]),
    );
    makes(
        &json!({ "op": "add", "path": "emails[type eq \"home\"].value", "value": "h@example.com" }),
        "emails",
        &json!([
            { "value": "a@example.com", "type": "work", "primary": true },
            { "type": "home", "value": "h@example.com" },
        ]),
    );
    makes(
        &json!({ "op": "add", "path": "emails", "value": [{ "value": "n@example.com", "primary": true }] }),
        "emails",
        &json!([
            { "value": "a@example.com", "type": "work", "primary": false },
            { "value": "n@example.com", "primary": true },
        ]),
    );
    makes(
        &json!({ "op": "remove", "path": "emails[type eq \"work\"]" }),
        "emails",
        &Value::Null,
    );
    // what is not kept changes nothing
    for path in [
        "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department",
        "title",
        "roles",
    ] {
        let made = patched(
            &USER_ATTRIBUTES,
            user(),
            &json!([{ "op": "add", "path": path, "value": "admin" }]),
        );
        assert_eq!(made.expect(path), user());
    }
}

#[test]
fn what_no_operation_may_do_is_refused_by_its_type() {
    for (operation, kind) in [
        (json!({ "op": "move", "path": "active" }), "invalidSyntax"),
        (json!({ "op": "remove" }), "noTarget"),
        (json!({ "op": "replace", "value": 1 }), "invalidValue"),
        (json!({ "op": "remove", "path": "userName" }), "mutability"),
        (
            json!({ "op": "replace", "path": "id", "value": "x" }),
            "mutability",
        ),
        (
            json!({ "op": "add", "path": "displayName" }),
            "invalidValue",
        ),
        (
            json!({ "op": "add", "path": "groups", "value": [] }),
            "mutability",
        ),
        (
            json!({ "op": "add", "path": "platformRole", "value": "admin" }),
            "invalidPath",
        ),
        (
            json!({ "op": "add", "path": "name.x", "value": "a" }),
            "invalidPath",
        ),
        (
            json!({ "op": "add", "path": "emails[type eq", "value": "a" }),
            "invalidPath",
        ),
        (
            json!({ "op": "add", "path": "emails[type]", "value": "a" }),
            "invalidFilter",
        ),
        (
            json!({ "op": "replace", "path": "emails[type eq \"home\"].value", "value": "a" }),
            "noTarget",
        ),
        (
            json!({ "op": "replace", "path": "active", "value": "perhaps" }),
            "invalidValue",
        ),
        (
            json!({ "op": "replace", "path": "userName", "value": "" }),
            "invalidValue",
        ),
        (
            json!({ "op": "replace", "path": "userName", "value": "a\u{0}b" }),
            "invalidValue",
        ),
    ] {
        let text = operation.to_string();
        assert_eq!(
            patched(&USER_ATTRIBUTES, user(), &json!([operation])),
            Err(kind.to_owned()),
            "{text}"
        );
    }
    assert_eq!(
        patched(&USER_ATTRIBUTES, user(), &json!([])),
        Err("invalidSyntax".to_owned())
    );
}

#[test]
fn members_come_and_go_as_each_provider_says_it() {
    let group = json!({ "displayName": "g", "members": [{ "value": "1" }, { "value": "2" }] });
    let members = |operation: Value| {
        let text = operation.to_string();
        let made = patched(&GROUP_ATTRIBUTES, group.clone(), &json!([operation])).expect(&text);
        let found = made["members"].as_array().cloned().unwrap_or_default();
        found
            .iter()
            .map(|one| one["value"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        members(
            json!({ "op": "add", "path": "members", "value": [{ "value": "3" }, { "value": "1" }] })
        ),
        ["1", "2", "3"]
    );
    assert_eq!(
        members(json!({ "op": "remove", "path": "members[value eq \"1\"]" })),
        ["2"]
    );
    assert_eq!(
        members(json!({ "op": "remove", "path": "members[value eq \"2\" or value eq \"3\"]" })),
        ["1"]
    );
    assert_eq!(
        members(json!({ "op": "remove", "path": "members[value eq \"3\" or value eq \"4\"]" })),
        ["1", "2"]
    );
    assert_eq!(
        members(json!({ "op": "Remove", "path": "members", "value": [{ "value": "1" }] })),
        ["2"]
    );
    assert_eq!(
        members(json!({ "op": "remove", "path": "members" })),
        [""; 0]
    );
    assert_eq!(
        members(json!({ "op": "replace", "path": "members", "value": [{ "value": "9" }] })),
        ["9"]
    );
}

/// A group of members of these numbers.
fn group(members: std::ops::Range<usize>) -> Value {
    json!({ "displayName": "g", "members": values(members) })
}

fn values(members: std::ops::Range<usize>) -> Value {
    members
        .map(|id| json!({ "value": id.to_string() }))
        .collect()
}

fn each(members: std::ops::Range<usize>, operation: impl Fn(usize) -> Value) -> Value {
    members.map(operation).collect()
}

fn remove(id: usize) -> Value {
    json!({ "op": "remove", "path": format!("members[value eq \"{id}\"]") })
}

fn add(id: usize) -> Value {
    json!({ "op": "add", "path": "members", "value": [{ "value": id.to_string() }] })
}

#[test]
fn a_request_names_so_many_values_and_no_more() {
    let too_many = Err("tooMany".to_owned());
    for verb in ["add", "replace", "remove"] {
        let one =
            |count: usize| json!([{ "op": verb, "path": "members", "value": values(0..count) }]);
        let patched = |count| patched(&GROUP_ATTRIBUTES, group(0..1), &one(count));
        assert!(patched(MAX_VALUES).is_ok(), "{verb}");
        assert_eq!(patched(MAX_VALUES + 1), too_many, "{verb}");
    }
    // in whichever operations they are, and without a path
    let several = json!([
        { "op": "add", "value": { "members": values(0..600) } },
        { "op": "remove", "path": "members", "value": values(0..401) },
    ]);
    assert_eq!(patched(&GROUP_ATTRIBUTES, group(0..1), &several), too_many);
    let operations = each(0..1001, add);
    assert_eq!(
        patched(&GROUP_ATTRIBUTES, group(0..1), &operations),
        too_many
    );
}

#[test]
fn operations_on_one_value_each_are_one() {
    let request = |operations: Value| json!({ "Operations": operations });
    let parsed = |operations: Value| {
        let patch = Patch::parse(&GROUP_ATTRIBUTES, &request(operations)).expect("a patch");
        patch.operations.len()
    };
    assert_eq!(parsed(each(0..1000, remove)), 1);
    assert_eq!(parsed(each(0..1000, add)), 1);
    let mixed = json!([remove(1), remove(2), add(3), add(4), remove(3)]);
    assert_eq!(parsed(mixed.clone()), 3);
    let made = patched(&GROUP_ATTRIBUTES, group(0..3), &mixed).expect("a group");
    assert_eq!(made["members"], json!([{ "value": "0" }, { "value": "4" }]));
    // those of a large group too
    let large = group(0..100_000);
    let made = patched(&GROUP_ATTRIBUTES, large, &each(0..1000, remove)).expect("a group");
    assert_eq!(made["members"], values(1000..100_000));
    // each of two addresses is primary when it is added, and the last one stays so
    let address = |name: &str| json!({ "op": "add", "path": "emails", "value": [{ "value": name, "primary": true }] });
    let made = patched(
        &USER_ATTRIBUTES,
        user(),
        &json!([address("b"), address("c")]),
    );
    let emails = &made.expect("a user")["emails"];
    assert_eq!(emails[1]["primary"], false, "{emails}");
    assert_eq!(emails[2]["primary"], true, "{emails}");
}

#[test]
fn operations_look_at_so_many_values_and_no_more() {
    let turns = |count: usize| {
        each(
            0..count,
            |id| if id % 2 == 0 { add(id) } else { remove(id) },
        )
    };
    let large = || group(0..10_000);
    assert!(patched(&GROUP_ATTRIBUTES, large(), &turns(90)).is_ok());
    assert_eq!(
        patched(&GROUP_ATTRIBUTES, large(), &turns(1000)),
        Err("tooMany".to_owned())
    );
}

/// Before, an operation counted the values that it looks at alone, however many comparisons its filter makes of each.
#[test]
fn a_long_filter_counts_as_the_comparisons_that_it_makes() {
    let filtered = |filter: &str, count: usize| {
        let one = json!({ "op": "remove", "path": format!("members[{filter}]") });
        let all = each(0..count, |_| one.clone());
        let made = patched(&GROUP_ATTRIBUTES, group(0..10_000), &all);
        made.map(|made| made["members"].as_array().map_or(0, Vec::len))
    };
    let terms = |count: usize| vec!["value sw \"x\""; count].join(" or ");
    let long = format!("value sw \"{}\"", "x".repeat(3900));
    let too_many = Err("tooMany".to_owned());
    assert_eq!(filtered(&terms(100), 1), Ok(10_000));
    assert_eq!(filtered(&terms(101), 1), too_many);
    assert_eq!(filtered(&terms(10), 10), Ok(10_000));
    assert_eq!(filtered(&terms(10), 11), too_many);
    // a text is brought to lower case for each value
    assert_eq!(filtered(&long, 1), Ok(10_000));
    assert_eq!(filtered(&long, 2), too_many);
}
