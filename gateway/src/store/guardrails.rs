//! What the owners of an organisation forbid in all of its projects.
use jiff_sqlx::Timestamp;
use serde::Deserialize;
use sqlx::types::Json;
use sqlx::{PgConnection, Row as _};
use uuid::Uuid;

/// The guardrails of an organisation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Guardrails {
    /// Whose they are.
    pub organisation_id: Uuid,
    /// Its slug.
    pub organisation: String,
    /// Nobody opens terminals.
    pub terminals_disabled: bool,
    /// Nobody reads serial logs.
    pub serial_logs_disabled: bool,
    /// Nobody creates ingress mappings.
    pub ingress_mappings_disabled: bool,
    /// Webhooks are disabled, and stay so.
    pub webhooks_disabled: bool,
    /// Nobody makes API keys or calls with one.
    pub api_keys_disabled: bool,
    /// Days after which a new API key expires at the latest; 0: no limit.
    pub max_api_key_days: u32,
    /// Regions of new allocations and capacity reservations; empty: all.
    pub allowed_regions: Vec<String>,
    /// Their SKUs; empty: all.
    pub allowed_skus: Vec<String>,
}

/// Of what has none.
pub static NO_GUARDRAILS: Guardrails = Guardrails {
    organisation_id: Uuid::nil(),
    organisation: String::new(),
    terminals_disabled: false,
    serial_logs_disabled: false,
    ingress_mappings_disabled: false,
    webhooks_disabled: false,
    api_keys_disabled: false,
    max_api_key_days: 0,
    allowed_regions: Vec::new(),
    allowed_skus: Vec::new(),
};

/// Guardrails with their version.
#[derive(Clone, Debug, Default)]
pub struct GuardrailsRow {
    /// What they forbid.
    pub guardrails: Guardrails,
    /// When they last changed; `None`: never.
    pub update_time: Option<Timestamp>,
    /// Rises with every change; 0 before the first.
    pub version: i64,
}

/// The guardrails of an organisation; what it has not set forbids nothing.
///
/// # Errors
/// Database errors.
pub async fn organisation_guardrails(
    conn: &mut PgConnection,
    organisation: Uuid,
) -> sqlx::Result<GuardrailsRow> {
    let row = sqlx::query(
        "SELECT to_jsonb(r) || jsonb_build_object('organisation', o.slug) AS guardrails, r.update_time, r.version
           FROM organisation_guardrails r JOIN organisations o ON o.id = r.organisation_id
          WHERE r.organisation_id = $1",
    )
    .bind(organisation)
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else {
        return Ok(GuardrailsRow {
            guardrails: Guardrails {
                organisation_id: organisation,
                ..Guardrails::default()
            },
            ..GuardrailsRow::default()
        });
    };
    let Json(guardrails) = row.try_get("guardrails")?;
    Ok(GuardrailsRow {
        guardrails,
        update_time: Some(row.try_get("update_time")?),
        version: row.try_get("version")?,
    })
}

/// Sets the guardrails of an organisation.
///
/// # Errors
/// Database errors.
pub async fn put_organisation_guardrails(
    conn: &mut PgConnection,
    guardrails: &Guardrails,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO organisation_guardrails (
                organisation_id, terminals_disabled, serial_logs_disabled, ingress_mappings_disabled, webhooks_disabled,
                api_keys_disabled, max_api_key_days, allowed_regions, allowed_skus)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT (organisation_id) DO UPDATE
            SET terminals_disabled = excluded.terminals_disabled, serial_logs_disabled = excluded.serial_logs_disabled,
                ingress_mappings_disabled = excluded.ingress_mappings_disabled,
                webhooks_disabled = excluded.webhooks_disabled, api_keys_disabled = excluded.api_keys_disabled,
                max_api_key_days = excluded.max_api_key_days, allowed_regions = excluded.allowed_regions,
                allowed_skus = excluded.allowed_skus",
    )
    .bind(guardrails.organisation_id)
    .bind(guardrails.terminals_disabled)
    .bind(guardrails.serial_logs_disabled)
    .bind(guardrails.ingress_mappings_disabled)
    .bind(guardrails.webhooks_disabled)
    .bind(guardrails.api_keys_disabled)
    .bind(i64::from(guardrails.max_api_key_days))
    .bind(&guardrails.allowed_regions)
    .bind(&guardrails.allowed_skus)
    .execute(conn)
    .await?;
    Ok(())
}
