//! What edge/0012 makes of things that operators made before it for members of whom they are none.
use sqlx::Connection as _;

use crate::additive::run;
use crate::disabled::before_script;

const ROWS: &str = "
INSERT INTO principals (id, name, issuer, subject, display_name, kind, platform_role)
SELECT lpad(n::text, 32, '0')::uuid, name, 'i', n::text, '', split_part(name, ':', 1), role
  FROM (VALUES (1, 'user:root', 'admin'), (2, 'user:olga', NULL), (3, 'user:boss', 'operator'), (4, 'user:both', 'admin'),
               (5, 'service:ci', NULL)) AS t (n, name, role);
INSERT INTO organisations (id, slug, display_name) VALUES (lpad('7', 32, '0')::uuid, 'acme', '');
INSERT INTO projects (id, organisation_id, slug, display_name) VALUES (lpad('8', 32, '0')::uuid, lpad('7', 32, '0')::uuid, 'vision', '');
INSERT INTO memberships (principal_id, project_id, role)
SELECT lpad(n, 32, '0')::uuid, lpad('8', 32, '0')::uuid, 'owner' FROM unnest(ARRAY['2', '4']) AS n;
INSERT INTO organisation_memberships (principal_id, organisation_id, role)
VALUES (lpad('3', 32, '0')::uuid, lpad('7', 32, '0')::uuid, 'owner');
INSERT INTO webhooks (id, project_id, url, event_types, description, secret, creator, state, disable_time, disable_reason)
SELECT gen_random_uuid(), lpad('8', 32, '0')::uuid, 'https://x', '{}', p.name, '', p.name, 'disabled', now(), p.name || ' disabled it.'
  FROM principals p WHERE kind = 'user';
INSERT INTO webhooks (id, organisation_id, url, event_types, description, secret, creator)
SELECT gen_random_uuid(), lpad('7', 32, '0')::uuid, 'https://x', '{}', p.name, '', p.name FROM principals p WHERE kind = 'user';
INSERT INTO service_accounts (principal_id, project_id, slug, description, creator)
VALUES (lpad('5', 32, '0')::uuid, lpad('8', 32, '0')::uuid, 'ci', '', 'user:root');
INSERT INTO api_keys (id, principal_id, display_name, hash, scopes, creator)
SELECT gen_random_uuid(), lpad('5', 32, '0')::uuid, p.name, sha256(p.name::bytea), '{read}', p.name FROM principals p WHERE kind = 'user';
INSERT INTO allocation_grants (id, project_id, allocation_id, principal_id, permission, creator, expire_time)
SELECT gen_random_uuid(), lpad('8', 32, '0')::uuid, gen_random_uuid(), lpad('2', 32, '0')::uuid, 'terminal', p.name, now()
  FROM principals p WHERE kind = 'user';
";

/// Each thing by whom it was made, and how it reads now.
const NOW: &str = "
SELECT what || ' ' || made_by || ': ' || creator FROM (
    SELECT 'project webhook' AS what, description AS made_by, creator || ', ' || disable_reason AS creator FROM webhooks WHERE project_id IS NOT NULL
    UNION ALL SELECT 'organisation webhook', description, creator FROM webhooks WHERE organisation_id IS NOT NULL
    UNION ALL SELECT 'account', slug, creator FROM service_accounts
    UNION ALL SELECT 'key', display_name, creator FROM api_keys
    UNION ALL SELECT 'grants', 'all', string_agg(creator, ' ' ORDER BY creator) FROM allocation_grants) AS t";

#[tokio::test]
async fn who_was_no_member_has_no_name_among_the_members() {
    let (empty, mut owner, after) = before_script(12).await;
    run(&mut owner, ROWS, "rows").await;
    let sql = after.first().expect("the script");
    run(&mut owner, &format!("BEGIN; {sql}; COMMIT"), "the script").await;
    let mut now: Vec<String> = sqlx::query_scalar(NOW)
        .fetch_all(&mut owner)
        .await
        .expect("rows");
    now.sort();
    assert_eq!(
        now,
        [
            "account ci: operator",
            "grants all: operator user:boss user:both user:olga",
            "key user:boss: user:boss",
            "key user:both: user:both",
            "key user:olga: user:olga",
            "key user:root: operator",
            "organisation webhook user:boss: user:boss",
            // owns the project alone
            "organisation webhook user:both: operator",
            "organisation webhook user:olga: user:olga",
            "organisation webhook user:root: operator",
            "project webhook user:boss: user:boss, user:boss disabled it.",
            "project webhook user:both: user:both, user:both disabled it.",
            "project webhook user:olga: user:olga, user:olga disabled it.",
            "project webhook user:root: operator, An operator disabled it.",
        ]
    );
    owner.close().await.expect("closed");
    empty.drop_it().await;
}
