//! What edge/0014 makes of addresses that identity providers sent by SCIM before it, and of those that gateways of the release
//! before write while it is rolled out; and who changes an address after edge/0015.
use sqlx::{Connection as _, PgConnection};

use crate::additive::run;
use crate::disabled::before_script;

const ORGANISATION: &str = "
INSERT INTO organisations (id, slug, display_name) VALUES (gen_random_uuid(), 'acme', 'Acme');
";

/// As a gateway of before registers people.
const ROWS: &str = "
INSERT INTO principals (id, name, issuer, subject, display_name, email, kind, scim_organisation_id)
SELECT gen_random_uuid(), 'user:' || n, 'i', n, '', n || '@example.com', 'user', CASE n WHEN 'scim' THEN o.id END
  FROM organisations o, (VALUES ('scim'), ('invited')) AS t (n)
ON CONFLICT DO NOTHING;
";

/// As it writes what a provider sends of them.
const CHANGE: &str = "
UPDATE principals SET subject = subject, display_name = name, email = 'new-' || split_part(name, ':', 2) || '@example.com';
";

/// Addresses and names of all.
async fn people(owner: &mut PgConnection) -> Vec<(String, String)> {
    sqlx::query_as("SELECT email, display_name FROM principals ORDER BY name")
        .fetch_all(owner)
        .await
        .expect("rows")
}

fn pairs(all: [(&str, &str); 2]) -> Vec<(String, String)> {
    let all = all.into_iter();
    all.map(|(email, name)| (email.to_owned(), name.to_owned()))
        .collect()
}

#[tokio::test]
async fn an_address_that_a_provider_sent_is_no_verified_one() {
    for is_before in [true, false] {
        let (empty, mut owner, after) = before_script(14).await;
        let sql = after.first().expect("the script");
        let script = format!("BEGIN; {sql}; COMMIT");
        run(&mut owner, ORGANISATION, "an organisation").await;
        if !is_before {
            run(&mut owner, &script, "the script").await;
        }
        run(&mut owner, ROWS, "an old gateway").await;
        if is_before {
            run(&mut owner, &script, "the script").await;
        }
        let left = people(&mut owner).await;
        let expected = pairs([("invited@example.com", ""), ("", "")]);
        assert_eq!(left, expected, "{is_before}");
        // and it changes both, of whom one has an address that is verified
        run(&mut owner, CHANGE, "an old gateway").await;
        let left = people(&mut owner).await;
        let expected = pairs([
            ("new-invited@example.com", "user:invited"),
            ("", "user:scim"),
        ]);
        assert_eq!(left, expected, "{is_before}");
        owner.close().await.expect("closed");
        empty.drop_it().await;
    }
}

/// As a gateway signs both in, with a token of this second.
fn sign_in(address: &str, issued: i64) -> String {
    format!(
        "UPDATE principals SET email = '{address}-' || split_part(name, ':', 2) || '@example.com',
                email_issue_time = to_timestamp({issued});"
    )
}

#[tokio::test]
async fn only_a_sign_in_gives_a_person_of_scim_an_address() {
    let (empty, mut owner, after) = before_script(15).await;
    run(&mut owner, ORGANISATION, "an organisation").await;
    run(&mut owner, ROWS, "people from before").await;
    let script = format!("BEGIN; {}; COMMIT", after.first().expect("the script"));
    run(&mut owner, &script, "the script").await;
    let left = people(&mut owner).await;
    assert_eq!(left, pairs([("invited@example.com", ""), ("", "")]));
    run(&mut owner, &sign_in("first", 1), "a sign-in").await;
    let signed_in = pairs([
        ("first-invited@example.com", ""),
        ("first-scim@example.com", ""),
    ]);
    assert_eq!(people(&mut owner).await, signed_in);
    // what a gateway of before writes of what a provider sends does not replace it, nor does it take it away
    run(&mut owner, CHANGE, "an old gateway").await;
    let kept = pairs([
        ("new-invited@example.com", "user:invited"),
        ("first-scim@example.com", "user:scim"),
    ]);
    assert_eq!(people(&mut owner).await, kept);
    let nothing = "UPDATE principals SET email = '' WHERE scim_organisation_id IS NOT NULL";
    run(&mut owner, nothing, "an old gateway").await;
    assert_eq!(people(&mut owner).await, kept);
    // a later sign-in does
    run(&mut owner, &sign_in("second", 2), "a sign-in").await;
    let changed = pairs([
        ("second-invited@example.com", "user:invited"),
        ("second-scim@example.com", "user:scim"),
    ]);
    assert_eq!(people(&mut owner).await, changed);
    // who is another subject is another person, who has not signed in
    let renamed = "UPDATE principals SET subject = 'other' WHERE scim_organisation_id IS NOT NULL";
    run(&mut owner, renamed, "another subject").await;
    let gone = pairs([
        ("second-invited@example.com", "user:invited"),
        ("", "user:scim"),
    ]);
    assert_eq!(people(&mut owner).await, gone);
    let issued: Option<bool> = sqlx::query_scalar(
        "SELECT bool_or(email_issue_time IS NOT NULL) FROM principals WHERE scim_organisation_id IS NOT NULL",
    )
    .fetch_one(&mut owner)
    .await
    .expect("rows");
    assert_eq!(issued, Some(false));
    owner.close().await.expect("closed");
    empty.drop_it().await;
}
