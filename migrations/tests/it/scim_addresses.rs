//! What edge/0014 makes of addresses that identity providers sent by SCIM before it.
use sqlx::Connection as _;

use crate::additive::run;
use crate::disabled::before_script;

const ROWS: &str = "
INSERT INTO organisations (id, slug, display_name) VALUES (gen_random_uuid(), 'acme', 'Acme');
INSERT INTO principals (id, name, issuer, subject, display_name, email, scim_organisation_id)
SELECT gen_random_uuid(), 'user:' || n, 'i', n, '', n || '@example.com', CASE n WHEN 'scim' THEN o.id END
  FROM organisations o, (VALUES ('scim'), ('invited')) AS t (n);
";

#[tokio::test]
async fn an_address_that_a_provider_sent_is_no_verified_one() {
    let (empty, mut owner, after) = before_script(14).await;
    run(&mut owner, ROWS, "rows").await;
    let sql = after.first().expect("the script");
    run(&mut owner, &format!("BEGIN; {sql}; COMMIT"), "the script").await;
    let left: Vec<String> = sqlx::query_scalar("SELECT email FROM principals ORDER BY name")
        .fetch_all(&mut owner)
        .await
        .expect("rows");
    assert_eq!(left, ["invited@example.com", ""]);
    owner.close().await.expect("closed");
    empty.drop_it().await;
}
