//! What edge/0014 makes of addresses that identity providers sent by SCIM before it, and of those that gateways of the release
//! before write while it is rolled out.
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
