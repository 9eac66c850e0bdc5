//! Regions and SKUs with their current price, as the ledger knows them.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use gpuaas_placement_decision::GpuCount;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::{Price, Profile, Shape, SlotClass};

/// What is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sku {
    /// Slug.
    pub code: String,
    /// For people.
    pub display_name: String,
    pub capacity_shape: Shape,
    /// The only slots it offers.
    pub slot_class: SlotClass,
    /// GPU counts it is offered in, ascending.
    pub allowed_gpu_counts: Vec<GpuCount>,
    /// VM per GPU.
    pub profile: Profile,
    /// Current price; absent until billing has published one.
    pub price: Option<Price>,
    /// An operator has disabled it.
    pub disabled: bool,
}

impl Sku {
    /// Whether the SKU is offered in this GPU count: the only place that decides it.
    ///
    /// # Errors
    /// `GPU_COUNT_NOT_ALLOWED`, with the counts that it is offered in.
    pub fn check_gpu_count(&self, gpu_count: GpuCount) -> Result<()> {
        if self.allowed_gpu_counts.contains(&gpu_count) {
            return Ok(());
        }
        let offered: Vec<String> = self
            .allowed_gpu_counts
            .iter()
            .map(ToString::to_string)
            .collect();
        Err(Error::Invalid {
            reason: ErrorReason::GpuCountNotAllowed,
            field: "gpu_count",
            rule: format!(
                "must be one of {} for SKU {}",
                offered.join(", "),
                self.code
            ),
        })
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    code: String,
    display_name: String,
    capacity_shape: Shape,
    #[sqlx(try_from = "String")]
    slot_class: SlotClass,
    allowed_gpu_counts: Vec<i32>,
    profile_name: String,
    vcpus_per_gpu: i32,
    memory_mib_per_gpu: i32,
    hugepages: bool,
    network_mbps: Option<i32>,
    network_burst_kb: Option<i32>,
    price_version_id: Option<Uuid>,
    price_currency: Option<String>,
    price_nanos: Option<i64>,
    disabled: bool,
}

#[derive(sqlx::FromRow)]
struct Offer {
    #[sqlx(flatten)]
    sku: Row,
    #[sqlx(rename = "region")]
    region_code: String,
    enabled: bool,
    unavailable_reason: String,
}

impl From<Row> for Sku {
    fn from(row: Row) -> Self {
        let price = match (row.price_version_id, row.price_currency, row.price_nanos) {
            (Some(version_id), Some(currency), Some(nanos_per_gpu_hour)) => Some(Price {
                version_id,
                currency,
                nanos_per_gpu_hour,
            }),
            _ => None,
        };
        Self {
            code: row.code,
            display_name: row.display_name,
            capacity_shape: row.capacity_shape,
            slot_class: row.slot_class,
            // the table has none below 1
            allowed_gpu_counts: row
                .allowed_gpu_counts
                .into_iter()
                .filter_map(|count| GpuCount::try_from(count).ok())
                .collect(),
            profile: Profile {
                name: row.profile_name,
                vcpus_per_gpu: row.vcpus_per_gpu,
                memory_mib_per_gpu: row.memory_mib_per_gpu,
                hugepages: row.hugepages,
                network_mbps: row.network_mbps,
                network_burst_kb: row.network_burst_kb,
            },
            price,
            disabled: row.disabled,
        }
    }
}

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT s.code, display_name, capacity_shape, slot_class, allowed_gpu_counts, profile_name, vcpus_per_gpu,
                    memory_mib_per_gpu, hugepages, network_mbps, network_burst_kb, price_version_id, price_currency, price_nanos, disabled ",
            $tail
        )
    };
}

/// A region, as the ledger knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct Region {
    /// Its code.
    pub code: String,
    /// Whether it takes launches.
    pub enabled: bool,
    /// Why not, for those who launch; empty when nobody said.
    pub unavailable_reason: String,
}

impl Region {
    /// What whoever launches in it is told while it is closed (H-28).
    #[must_use]
    pub fn closed(&self) -> Option<String> {
        let why = self.unavailable_reason.trim().trim_end_matches('.');
        match (self.enabled, why) {
            (true, _) => None,
            (false, "") => Some(format!("Region {} is closed.", self.code)),
            (false, why) => Some(format!("Region {} is closed: {why}.", self.code)),
        }
    }
}

/// Most of each kind that are named of what is in a region.
const USERS_NAMED: i64 = 20;

/// Tells the ledger of a region and whether it is enabled.
///
/// # Errors
/// Those of the database.
pub async fn put_region(conn: &mut PgConnection, region: &Region) -> Result<()> {
    sqlx::query(
        "INSERT INTO regions (code, enabled, unavailable_reason) VALUES ($1, $2, $3)
         ON CONFLICT (code) DO UPDATE SET enabled = excluded.enabled, unavailable_reason = excluded.unavailable_reason,
                updated_at = greatest(clock_timestamp(), regions.updated_at)
          WHERE regions.enabled <> excluded.enabled OR regions.unavailable_reason <> excluded.unavailable_reason",
    )
    .bind(&region.code)
    .bind(region.enabled)
    .bind(&region.unavailable_reason)
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes a region that nothing in the ledger refers to, or says what does: all of it when it is little, some of each kind
/// otherwise. One that there is not is gone.
///
/// # Errors
/// Those of the database.
pub async fn delete_region(conn: &mut PgConnection, code: &str) -> Result<Vec<String>> {
    // whoever puts something into it meanwhile waits, and finds no region
    sqlx::query("SELECT FROM regions WHERE code = $1 FOR UPDATE")
        .bind(code)
        .execute(&mut *conn)
        .await?;
    let used_by: Vec<String> = sqlx::query_scalar(
        "(SELECT format('allocation %s (%s, %s)', name, id, state) FROM allocations WHERE region_code = $1
           ORDER BY ended_at DESC NULLS FIRST, id LIMIT $2)
         UNION ALL
         (SELECT format('capacity reservation %s (%s, %s)', name, id, state) FROM capacity_reservations
           WHERE region_code = $1 ORDER BY ended_at DESC NULLS FIRST, id LIMIT $2)
         UNION ALL
         (SELECT format('node %s (%s, %s)', hostname, id, admin_state) FROM nodes WHERE region_code = $1
           ORDER BY hostname, id LIMIT $2)",
    )
    .bind(code)
    .bind(USERS_NAMED)
    .fetch_all(&mut *conn)
    .await?;
    if used_by.is_empty() {
        sqlx::query("DELETE FROM regions WHERE code = $1")
            .bind(code)
            .execute(conn)
            .await?;
    }
    Ok(used_by)
}

/// Regions by code; only `code` when given.
///
/// # Errors
/// Those of the database.
pub async fn regions(conn: &mut PgConnection, code: Option<&str>) -> Result<Vec<Region>> {
    let rows = sqlx::query_as(
        "SELECT code, enabled, unavailable_reason FROM regions WHERE $1::text IS NULL OR code = $1 ORDER BY code",
    )
    .bind(code)
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// One SKU.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn sku(conn: &mut PgConnection, code: &str) -> Result<Sku> {
    let row: Option<Row> = sqlx::query_as(select!("FROM skus s WHERE s.code = $1"))
        .bind(code)
        .fetch_optional(conn)
        .await?;
    row.map(Sku::from)
        .ok_or_else(|| Error::not_found("sku", code))
}

/// Those of these SKUs that there are.
///
/// # Errors
/// Those of the database.
pub(crate) async fn skus_of(conn: &mut PgConnection, codes: &[&str]) -> Result<Vec<Sku>> {
    let rows: Vec<Row> = sqlx::query_as(select!("FROM skus s WHERE s.code = ANY ($1)"))
        .bind(codes)
        .fetch_all(conn)
        .await?;
    Ok(rows.into_iter().map(Sku::from).collect())
}

/// A SKU and a region that a request names.
///
/// # Errors
/// As [`known_region`] and [`known_sku`].
pub(crate) async fn offer(
    conn: &mut PgConnection,
    region_code: &str,
    sku: &str,
) -> Result<(Sku, Region)> {
    let found: Option<Offer> = sqlx::query_as(select!(
        ", r.code AS region, r.enabled, r.unavailable_reason FROM skus s JOIN regions r ON r.code = $2 WHERE s.code = $1"
    ))
    .bind(sku)
    .bind(region_code)
    .fetch_optional(&mut *conn)
    .await?;
    if let Some(offer) = found {
        let region = Region {
            code: offer.region_code,
            enabled: offer.enabled,
            unavailable_reason: offer.unavailable_reason,
        };
        return Ok((offer.sku.into(), region));
    }
    let region = known_region(conn, region_code).await?;
    Ok((known_sku(conn, sku).await?, region))
}

/// A region that a request names.
///
/// # Errors
/// [`Error::Invalid`] for `region_code` when there is none.
pub async fn known_region(conn: &mut PgConnection, code: &str) -> Result<Region> {
    let found = regions(conn, Some(code)).await?.into_iter().next();
    found.ok_or_else(|| Error::Invalid {
        reason: ErrorReason::RegionUnknown,
        field: "region_code",
        rule: "is not a region; list the regions".to_owned(),
    })
}

/// A SKU that a request names.
///
/// # Errors
/// [`Error::Invalid`] for `sku` when there is none.
pub async fn known_sku(conn: &mut PgConnection, code: &str) -> Result<Sku> {
    match sku(conn, code).await {
        Err(Error::NotFound { .. }) => Err(Error::Invalid {
            reason: ErrorReason::SkuUnknown,
            field: "sku",
            rule: "is not a SKU; list the SKUs".to_owned(),
        }),
        other => other,
    }
}

/// What is offered to members of some projects: SKUs with a price that are enabled, or reserved for one of them. NULL: to
/// operators, every SKU.
macro_rules! offered_to {
    () => {
        " FROM skus s WHERE $1::uuid[] IS NULL OR s.price_version_id IS NOT NULL
            AND (NOT s.disabled OR EXISTS (
                SELECT FROM reserved_slots h JOIN capacity_reservations r ON r.id = h.reservation_id
                 WHERE r.sku = s.code AND r.project_id = ANY ($1) AND r.ends_at > clock_timestamp()))"
    };
}

/// SKUs by code, at most `limit`: those offered to members of these projects, or all.
///
/// # Errors
/// Those of the database.
pub async fn skus(
    conn: &mut PgConnection,
    projects: Option<&[Uuid]>,
    limit: i64,
) -> Result<Vec<Sku>> {
    let rows: Vec<Row> = sqlx::query_as(concat!(
        select!(""),
        offered_to!(),
        " ORDER BY s.code LIMIT $2"
    ))
    .bind(projects)
    .bind(limit)
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(Sku::from).collect())
}

/// What a list of SKUs can be selected by.
pub static SKUS: Catalog = Catalog {
    fields: &[
        CODE,
        Field::sortable("display_name", Kind::Text, "listed.display_name"),
        Field::sortable(
            "capacity_shape",
            Kind::OneOf(&["gpu_slice", "baremetal"]),
            "listed.capacity_shape",
        ),
        Field::new(
            "slot_class",
            Kind::OneOf(&["h200_sxm", "lab"]),
            "listed.slot_class",
        ),
        Field::new("lab", Kind::Flag, "(listed.slot_class = 'lab')"),
        Field::new("disabled", Kind::Flag, "listed.disabled"),
        Field::sortable("create_time", Kind::Time, "listed.created_at"),
        Field::sortable("update_time", Kind::Time, "listed.updated_at"),
    ],
    key: CODE,
    order: "code",
};

const CODE: Field = Field::sortable("code", Kind::Text, "listed.code");

/// A page of the SKUs that a caller selects, of those offered to members of these projects or of all, and the token of the
/// next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; those of the database.
pub async fn list_skus(
    conn: &mut PgConnection,
    projects: Option<&[Uuid]>,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> Result<(Vec<Sku>, String)> {
    let statement =
        Statement::new(&[select!(", created_at, updated_at"), offered_to!()]).bind(projects);
    let (rows, next) = selection.page::<Row>(conn, statement, wanted).await?;
    Ok((rows.into_iter().map(Sku::from).collect(), next))
}

/// A SKU as it is until the transaction ends; none: there is none yet, and nobody else creates it meanwhile.
///
/// # Errors
/// The database.
pub async fn lock_sku(conn: &mut PgConnection, code: &str) -> Result<Option<Sku>> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('sku/' || $1, 0))")
        .bind(code)
        .execute(&mut *conn)
        .await?;
    let row: Option<Row> =
        sqlx::query_as(select!("FROM skus s WHERE s.code = $1 FOR NO KEY UPDATE"))
            .bind(code)
            .fetch_optional(conn)
            .await?;
    Ok(row.map(Sku::from))
}

/// Creates or replaces a SKU; the price stays. Live claims keep their snapshot.
///
/// # Errors
/// [`Error::Invalid`] when the schema refuses it, for example a class change while slots of it are held.
pub async fn put_sku(conn: &mut PgConnection, sku: &Sku) -> Result<Sku> {
    let mut counts: Vec<i32> = sku
        .allowed_gpu_counts
        .iter()
        .map(|count| count.column())
        .collect();
    counts.sort_unstable();
    let done = sqlx::query(
        "INSERT INTO skus (code, display_name, capacity_shape, slot_class, allowed_gpu_counts, profile_name,
                           vcpus_per_gpu, memory_mib_per_gpu, hugepages, disabled, network_mbps, network_burst_kb)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         ON CONFLICT (code) DO UPDATE SET display_name = excluded.display_name,
                capacity_shape = excluded.capacity_shape, slot_class = excluded.slot_class,
                allowed_gpu_counts = excluded.allowed_gpu_counts, profile_name = excluded.profile_name,
                vcpus_per_gpu = excluded.vcpus_per_gpu, memory_mib_per_gpu = excluded.memory_mib_per_gpu,
                hugepages = excluded.hugepages, disabled = excluded.disabled, network_mbps = excluded.network_mbps,
                network_burst_kb = excluded.network_burst_kb, updated_at = greatest(clock_timestamp(), skus.updated_at)",
    )
    .bind(&sku.code)
    .bind(&sku.display_name)
    .bind(sku.capacity_shape.as_str())
    .bind(sku.slot_class.as_str())
    .bind(counts)
    .bind(&sku.profile.name)
    .bind(sku.profile.vcpus_per_gpu)
    .bind(sku.profile.memory_mib_per_gpu)
    .bind(sku.profile.hugepages)
    .bind(sku.disabled)
    .bind(sku.profile.network_mbps)
    .bind(sku.profile.network_burst_kb)
    .execute(&mut *conn)
    .await;
    match done {
        Ok(_) => self::sku(conn, &sku.code).await,
        Err(error) => {
            let state = error
                .as_database_error()
                .and_then(sqlx::error::DatabaseError::code)
                .map(std::borrow::Cow::into_owned);
            let rule = match state.as_deref() {
                Some("23503") => "has slots of another class already; create a new SKU",
                Some("23514") => {
                    "breaks a rule of the catalog: only lab-slice uses class lab, counts are positive and differ"
                }
                _ => return Err(error.into()),
            };
            Err(Error::Invalid {
                reason: ErrorReason::FieldInvalid,
                field: "sku",
                rule: rule.to_owned(),
            })
        }
    }
}

/// Publishes a SKU's current price version. An older one than the present one changes nothing.
///
/// # Errors
/// [`Error::NotFound`] for the SKU.
pub async fn put_price(
    conn: &mut PgConnection,
    sku: &str,
    price: &Price,
    effective_at: Timestamp,
) -> Result<()> {
    let known =
        sqlx::query_scalar::<_, String>("SELECT code FROM skus WHERE code = $1 FOR NO KEY UPDATE")
            .bind(sku)
            .fetch_optional(&mut *conn)
            .await?;
    if known.is_none() {
        return Err(Error::not_found("sku", sku));
    }
    sqlx::query(
        "UPDATE skus SET price_version_id = $2, price_currency = $3, price_nanos = $4, price_effective_at = $5,
                updated_at = greatest(clock_timestamp(), updated_at)
          WHERE code = $1 AND (price_effective_at IS NULL OR price_effective_at < $5)",
    )
    .bind(sku)
    .bind(price.version_id)
    .bind(&price.currency)
    .bind(price.nanos_per_gpu_hour)
    .bind(effective_at)
    .execute(conn)
    .await?;
    Ok(())
}
