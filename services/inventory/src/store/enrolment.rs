//! Enrolment tokens, host instances and their certificates.
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::renewal::LatestCertificate;

/// Stores a token's digest; ends an earlier token of the node that was not used. Returns when it expires.
///
/// # Errors
/// Database errors.
pub async fn insert_token(
    conn: &mut PgConnection,
    id: Uuid,
    node_id: Uuid,
    digest: &[u8; 32],
    lifetime_seconds: u32,
) -> sqlx::Result<Timestamp> {
    sqlx::query("UPDATE enrolment_tokens SET end_time = clock_timestamp() WHERE node_id = $1 AND end_time IS NULL")
        .bind(node_id)
        .execute(&mut *conn)
        .await?;
    sqlx::query_scalar(
        "INSERT INTO enrolment_tokens (id, node_id, token_digest, expire_time)
         VALUES ($1, $2, $3, clock_timestamp() + make_interval(secs => $4)) RETURNING expire_time",
    )
    .bind(id)
    .bind(node_id)
    .bind(digest.as_slice())
    .bind(f64::from(lifetime_seconds))
    .fetch_one(conn)
    .await
}

/// Node and expiry of a token, by its id.
///
/// # Errors
/// Database errors.
pub async fn find_token(
    conn: &mut PgConnection,
    id: Uuid,
) -> sqlx::Result<Option<(Uuid, Timestamp)>> {
    sqlx::query_as("SELECT node_id, expire_time FROM enrolment_tokens WHERE id = $1")
        .bind(id)
        .fetch_optional(conn)
        .await
}

/// A token that was used for this very key, whose instance is still the node's current one: the answer was lost, and
/// the same request may be sent again while the token lives.
const ASKED_AGAIN: &str = "SELECT t.node_id, i.id AS instance_id
    FROM enrolment_tokens t
    JOIN host_instances i ON i.id = t.instance_id
    JOIN nodes n ON n.current_instance_id = i.id
    WHERE t.token_digest = $1 AND t.expire_time > clock_timestamp() AND i.public_key_digest = $2 AND n.removed IS NULL";

/// Node that a token is for, when this key may enrol with it, and whether an instance of it enrolled before. Uses
/// nothing up.
///
/// # Errors
/// Database errors.
pub async fn peek_token(
    conn: &mut PgConnection,
    digest: &[u8; 32],
    key_digest: &[u8; 32],
) -> sqlx::Result<Option<(Uuid, bool)>> {
    let fresh = sqlx::query_as(
        "SELECT t.node_id, n.current_instance_id IS NOT NULL
         FROM enrolment_tokens t JOIN nodes n ON n.id = t.node_id
         WHERE t.token_digest = $1 AND t.end_time IS NULL AND t.expire_time > clock_timestamp() AND n.removed IS NULL",
    )
    .bind(digest.as_slice())
    .fetch_optional(&mut *conn)
    .await?;
    if fresh.is_some() {
        return Ok(fresh);
    }
    let again: Option<(Uuid, Uuid)> = sqlx::query_as(ASKED_AGAIN)
        .bind(digest.as_slice())
        .bind(key_digest.as_slice())
        .fetch_optional(conn)
        .await?;
    Ok(again.map(|(node_id, _)| (node_id, true)))
}

/// What a token gives to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenUse {
    /// A new instance; the token is used up.
    Fresh {
        /// The token, for [`insert_instance`].
        token_id: Uuid,
        /// Whether the node had an instance before (a reimage).
        reimaged: bool,
    },
    /// The instance that it gave to the same key before.
    Again {
        /// That instance.
        instance_id: Uuid,
    },
}

/// Locks the node and uses a token up for a key. `None`, and nothing changed, when this key cannot use it.
///
/// # Errors
/// Database errors.
pub async fn use_token(
    conn: &mut PgConnection,
    digest: &[u8; 32],
    node_id: Uuid,
    key_digest: &[u8; 32],
) -> sqlx::Result<Option<TokenUse>> {
    // the node first, as everywhere: two enrolments of one node run one after the other here
    let earlier: Option<Option<Uuid>> = sqlx::query_scalar(
        "SELECT current_instance_id FROM nodes WHERE id = $1 AND removed IS NULL FOR NO KEY UPDATE",
    )
    .bind(node_id)
    .fetch_optional(&mut *conn)
    .await?;
    let Some(earlier) = earlier else {
        return Ok(None);
    };
    let used: Option<Uuid> = sqlx::query_scalar(
        "UPDATE enrolment_tokens SET end_time = clock_timestamp()
         WHERE token_digest = $1 AND node_id = $2 AND end_time IS NULL AND expire_time > clock_timestamp()
         RETURNING id",
    )
    .bind(digest.as_slice())
    .bind(node_id)
    .fetch_optional(&mut *conn)
    .await?;
    if let Some(token_id) = used {
        return Ok(Some(TokenUse::Fresh {
            token_id,
            reimaged: earlier.is_some(),
        }));
    }
    let again: Option<(Uuid, Uuid)> = sqlx::query_as(ASKED_AGAIN)
        .bind(digest.as_slice())
        .bind(key_digest.as_slice())
        .fetch_optional(conn)
        .await?;
    Ok(again.map(|(_, instance_id)| TokenUse::Again { instance_id }))
}

/// A host instance to be.
#[derive(Debug, Clone)]
pub struct NewInstance<'a> {
    pub id: Uuid,
    /// Boot of the running kernel.
    pub boot_id: &'a str,
    /// Identity of the installed image.
    pub machine_id: &'a str,
    /// Build of the agent.
    pub agent_version: &'a str,
    /// When the agent was built.
    pub agent_built_time: Option<jiff::Timestamp>,
    /// Where the agent answers.
    pub agent_address: &'a str,
    pub host_profile: &'a str,
    /// An emulated host.
    pub lab: bool,
    /// `kvm` or `qemu`.
    pub hypervisor: &'a str,
}

/// A certificate that was issued to an instance.
#[derive(Debug, Clone, Copy)]
pub struct NewCertificate {
    /// SHA-256 of the certificate.
    pub digest: [u8; 32],
    /// When it expires.
    pub expire_time: jiff::Timestamp,
    /// SHA-256 of its public key.
    pub key_digest: [u8; 32],
}

/// Stores the instance that a token was used up for and makes it the node's current one. The node's row is locked by
/// the caller.
///
/// # Errors
/// Database errors.
pub async fn insert_instance(
    conn: &mut PgConnection,
    token_id: Uuid,
    node_id: Uuid,
    instance: &NewInstance<'_>,
    certificate: &NewCertificate,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO host_instances (id, node_id, boot_id, machine_id, agent_version, agent_built_time, agent_address,
             host_profile, lab, hypervisor, certificate_digest, certificate_expire_time, public_key_digest)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
    )
    .bind(instance.id)
    .bind(node_id)
    .bind(instance.boot_id)
    .bind(instance.machine_id)
    .bind(instance.agent_version)
    .bind(instance.agent_built_time.map(Timestamp::from))
    .bind(instance.agent_address)
    .bind(instance.host_profile)
    .bind(instance.lab)
    .bind(instance.hypervisor)
    .bind(certificate.digest.as_slice())
    .bind(Timestamp::from(certificate.expire_time))
    .bind(certificate.key_digest.as_slice())
    .execute(&mut *conn)
    .await?;
    sqlx::query("UPDATE enrolment_tokens SET instance_id = $2 WHERE id = $1")
        .bind(token_id)
        .bind(instance.id)
        .execute(&mut *conn)
        .await?;
    sqlx::query(
        "UPDATE nodes SET current_instance_id = $2, state = 'enrolled', last_heartbeat_time = clock_timestamp(),
             revision = revision + 1, update_time = greatest(clock_timestamp(), update_time)
         WHERE id = $1",
    )
    .bind(node_id)
    .bind(instance.id)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "INSERT INTO host_beats (node_id, instance_id, beat_time) VALUES ($1, $2, clock_timestamp())
         ON CONFLICT (node_id) DO UPDATE SET instance_id = EXCLUDED.instance_id, beat_time = EXCLUDED.beat_time,
             observed_time = NULL, known_digest = NULL, known_time = NULL",
    )
    .bind(node_id)
    .bind(instance.id)
    .execute(conn)
    .await?;
    Ok(())
}

/// Locks the node and returns what the certificate of its current instance is; `None` when that is not this instance.
///
/// # Errors
/// Database errors.
pub async fn lock_current(
    conn: &mut PgConnection,
    node_id: Uuid,
    instance_id: Uuid,
    grace_seconds: f64,
) -> sqlx::Result<Option<LatestCertificate>> {
    let current: Option<Uuid> = sqlx::query_scalar(
        "SELECT id FROM nodes WHERE id = $1 AND current_instance_id = $2 AND removed IS NULL FOR NO KEY UPDATE",
    )
    .bind(node_id)
    .bind(instance_id)
    .fetch_optional(&mut *conn)
    .await?;
    if current.is_none() {
        return Ok(None);
    }
    sqlx::query_as(
        "SELECT public_key_digest AS key_digest,
                certificate_expire_time + make_interval(secs => $2) <= clock_timestamp() AS beyond_grace
         FROM host_instances WHERE id = $1",
    )
    .bind(instance_id)
    .bind(grace_seconds)
    .fetch_optional(conn)
    .await
}

/// Stores the instance's latest certificate. The node's row is locked by the caller.
///
/// # Errors
/// Database errors.
pub async fn set_certificate(
    conn: &mut PgConnection,
    instance_id: Uuid,
    certificate: &NewCertificate,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE host_instances SET certificate_digest = $2, certificate_expire_time = $3, public_key_digest = $4
         WHERE id = $1",
    )
    .bind(instance_id)
    .bind(certificate.digest.as_slice())
    .bind(Timestamp::from(certificate.expire_time))
    .bind(certificate.key_digest.as_slice())
    .execute(conn)
    .await?;
    Ok(())
}
