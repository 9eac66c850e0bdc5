//! What edge/0012 makes of things that operators made before it for members of whom they are none, and edge/0013 of those that
//! gateways of a release before make while it is rolled out.
use sqlx::{Connection as _, PgConnection};

use crate::additive::run;
use crate::disabled::before_script;

/// Who is a member of what, and who has a role on the platform.
const PEOPLE: &str = "
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
";

/// What each of them makes, as a gateway of before edge/0012 does it.
const MADE: &str = "
INSERT INTO webhooks (id, project_id, url, event_types, description, secret, creator)
SELECT gen_random_uuid(), lpad('8', 32, '0')::uuid, 'https://x', '{}', p.name, '', p.name FROM principals p WHERE kind = 'user';
UPDATE webhooks SET state = 'disabled', disable_time = now(), disable_reason = description || ' disabled it.';
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

const SHOWN: [&str; 14] = [
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
];

async fn shown(owner: &mut PgConnection, sql: &'static str) -> Vec<String> {
    let mut rows: Vec<String> = sqlx::query_scalar(sql)
        .fetch_all(owner)
        .await
        .expect("rows");
    rows.sort();
    rows
}

#[tokio::test]
async fn who_was_no_member_has_no_name_among_the_members() {
    let (empty, mut owner, after) = before_script(12).await;
    run(&mut owner, PEOPLE, "people").await;
    run(&mut owner, MADE, "rows").await;
    let sql = after.first().expect("the script");
    run(&mut owner, &format!("BEGIN; {sql}; COMMIT"), "the script").await;
    assert_eq!(shown(&mut owner, NOW).await, SHOWN);
    owner.close().await.expect("closed");
    empty.drop_it().await;
}

/// Who invited, as it reads: whom, and to what.
const INVITED: &str = "
SELECT concat_ws(' ', email, CASE WHEN organisation_id IS NULL THEN 'project' ELSE 'organisation' END) || ': ' || shown_inviter
  FROM invitations";
/// Invitations of each user, as a gateway of before the column makes them; those to the project are used.
const INVITE: &str = "
INSERT INTO invitations (id, project_id, email, role, token_hash, inviter, expire_time, accept_time, accepted_by)
SELECT gen_random_uuid(), lpad('8', 32, '0')::uuid, p.name, 'viewer', sha256((random()::text || p.name)::bytea), p.name, now(), now(), p.id
  FROM principals p WHERE kind = 'user';
INSERT INTO invitations (id, organisation_id, email, role, token_hash, inviter, expire_time)
SELECT gen_random_uuid(), lpad('7', 32, '0')::uuid, p.name, 'viewer', sha256((random()::text || p.name)::bytea), p.name, now()
  FROM principals p WHERE kind = 'user';
";

#[tokio::test]
async fn what_old_gateways_write_during_an_upgrade_names_no_operator() {
    for is_before in [true, false] {
        let (empty, mut owner, after) = before_script(13).await;
        let sql = after.first().expect("the script");
        let script = format!("BEGIN; {sql}; COMMIT");
        run(&mut owner, PEOPLE, "people").await;
        if !is_before {
            run(&mut owner, &script, "the script").await;
        }
        run(&mut owner, MADE, "an old gateway").await;
        run(&mut owner, INVITE, "an old gateway").await;
        if is_before {
            run(&mut owner, &script, "the script").await;
        }
        assert_eq!(shown(&mut owner, NOW).await, SHOWN, "{is_before}");
        let mut invited = vec![
            "user:boss organisation: user:boss",
            "user:boss project: user:boss",
            "user:both organisation: operator",
            "user:both project: user:both",
            // runs no platform and is no member of the organisation: of before, nothing says that it never did
            "user:olga organisation: operator",
            "user:olga project: user:olga",
            "user:root organisation: operator",
            "user:root project: operator",
        ];
        if !is_before {
            invited[4] = "user:olga organisation: user:olga";
        }
        assert_eq!(shown(&mut owner, INVITED).await, invited, "{is_before}");
        // a used one stays as it is
        let used = "DO $$ BEGIN UPDATE invitations SET email = 'x@example.com' WHERE accept_time IS NOT NULL;
                    RAISE 'was changed'; EXCEPTION WHEN integrity_constraint_violation THEN NULL; END $$";
        run(&mut owner, used, "a change of a used one").await;
        owner.close().await.expect("closed");
        empty.drop_it().await;
    }
}

/// What the audit trail says of an operator who has become a member since.
#[tokio::test]
async fn who_invited_as_an_operator_has_no_name_as_a_member_either() {
    let (empty, mut owner, after) = before_script(13).await;
    run(&mut owner, PEOPLE, "people").await;
    run(&mut owner, INVITE, "invitations").await;
    let on_record = "
        INSERT INTO audit (id, principal, action, resource, resource_id, request_id, detail)
        SELECT gen_random_uuid(), inviter, 'invitation.create', 'project', 'p', 'r',
               jsonb_build_object('invitation_id', id, 'by_operator', inviter = 'user:both')
          FROM invitations WHERE project_id IS NOT NULL";
    run(&mut owner, on_record, "the audit trail").await;
    let sql = after.first().expect("the script");
    run(&mut owner, &format!("BEGIN; {sql}; COMMIT"), "the script").await;
    let now = shown(&mut owner, INVITED).await;
    for (line, named) in [
        ("user:both project: ", "operator"),
        ("user:olga project: ", "user:olga"),
    ] {
        assert!(now.contains(&format!("{line}{named}")), "{now:?}");
    }
    owner.close().await.expect("closed");
    empty.drop_it().await;
}
