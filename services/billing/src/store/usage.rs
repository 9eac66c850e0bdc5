//! Usage intervals: opened and closed by ledger events, listed per project.
use gpuaas_common::Result;
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::{Timestamp, ToSqlx as _};
use sqlx::postgres::PgArguments;
use sqlx::{Arguments as _, FromRow, PgConnection, PgExecutor, Postgres, QueryBuilder};
use uuid::Uuid;

use super::position;
use super::prices::price;
use crate::domain::event::Start;
use crate::domain::money::{Currency, Price};
use crate::domain::reconcile::{Period, Periods};
use crate::domain::usage::Recorded;

/// What is on record about an allocation.
///
/// # Errors
/// Database errors.
pub async fn recorded(conn: &mut PgConnection, allocation_id: Uuid) -> sqlx::Result<Recorded> {
    let newest: Option<(Uuid, Timestamp, bool)> = sqlx::query_as(
        "SELECT id, started_at, ended_at IS NULL FROM usage_intervals
         WHERE allocation_id = $1 ORDER BY opened_position DESC LIMIT 1",
    )
    .bind(allocation_id)
    .fetch_optional(conn)
    .await?;
    Ok(match newest {
        None => Recorded::Nothing,
        Some((interval_id, since, true)) => Recorded::Open {
            interval_id,
            since: since.to_jiff(),
        },
        Some(_) => Recorded::Closed,
    })
}

/// Opens an interval.
///
/// # Errors
/// Database errors, among them every constraint of the table.
pub async fn open(
    conn: &mut PgConnection,
    id: Uuid,
    start: &Start,
    position: i64,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO usage_intervals
             (id, allocation_id, project_id, sku, gpu_count, price_version_id, claims, started_at, opened_position)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(id)
    .bind(start.allocation_id)
    .bind(start.project_id)
    .bind(&start.sku)
    .bind(i32::try_from(start.gpu_count).expect("parsed to at most 1024"))
    .bind(start.price_version_id)
    .bind(&start.claims)
    .bind(start.at.to_sqlx())
    .bind(position)
    .execute(conn)
    .await?;
    Ok(())
}

/// Closes an interval.
///
/// # Errors
/// Database errors, among them every constraint of the table.
pub async fn close(
    conn: &mut PgConnection,
    id: Uuid,
    at: jiff::Timestamp,
    position: i64,
) -> sqlx::Result<()> {
    sqlx::query("UPDATE usage_intervals SET ended_at = $2, closed_position = $3 WHERE id = $1")
        .bind(id)
        .bind(at.to_sqlx())
        .bind(position)
        .execute(conn)
        .await?;
    Ok(())
}

/// Which intervals to list.
#[derive(Debug, Clone, Copy)]
pub struct Filter {
    /// The project; lists are always scoped.
    pub project_id: Uuid,
    /// Only this allocation.
    pub allocation_id: Option<Uuid>,
}

/// An interval with its price; open ones count up to the start of the transaction.
#[derive(Debug, Clone, FromRow)]
pub struct Interval {
    /// Id.
    pub id: Uuid,
    /// The allocation.
    pub allocation_id: Uuid,
    /// The project.
    pub project_id: Uuid,
    /// SKU code.
    pub sku: String,
    /// GPUs held.
    #[sqlx(try_from = "i32")]
    pub gpu_count: u32,
    /// The price version.
    pub price_version_id: Uuid,
    currency: String,
    price_nanos: i64,
    /// Start.
    pub started_at: Timestamp,
    /// End; absent while open.
    pub ended_at: Option<Timestamp>,
    /// Length so far.
    pub microseconds: i64,
    /// What of it is not charged.
    pub credited_microseconds: i64,
}

impl Interval {
    /// The price.
    pub fn price(&self) -> Price {
        price(&self.currency, self.price_nanos)
    }
}

/// What a list of intervals can be selected by.
pub static CATALOG: Catalog = Catalog {
    fields: &[
        ID,
        Field::sortable("allocation_id", Kind::Id, "listed.allocation_id"),
        Field::sortable("sku", Kind::Text, "listed.sku"),
        Field::sortable("gpu_count", Kind::Number, "listed.gpu_count::bigint"),
        Field::new("currency", Kind::Text, "listed.currency"),
        Field::sortable("start_time", Kind::Time, "listed.started_at"),
        Field::new("end_time", Kind::Time, "listed.ended_at"),
    ],
    key: ID,
    order: "start_time desc",
};

const ID: Field = Field::new("id", Kind::Id, "listed.id");

/// A project's intervals, at will of one allocation; open ones count up to the start of the transaction. What is credited is
/// joined: a function of the database would be called row by row. `least` takes an open credit as one to the end.
const INTERVALS: &str = "SELECT u.id, u.allocation_id, u.project_id, u.sku, u.gpu_count, u.price_version_id,
                p.currency, p.price_nanos, u.started_at, u.ended_at,
                interval_microseconds(u.started_at, coalesce(u.ended_at, now())) AS microseconds,
                credited.microseconds AS credited_microseconds
         FROM usage_intervals u JOIN price_versions p ON p.id = u.price_version_id
              CROSS JOIN LATERAL (
                  SELECT coalesce(sum(interval_microseconds(greatest(c.started_at, u.started_at),
                                                            least(c.ended_at, coalesce(u.ended_at, now())))), 0)::bigint AS microseconds
                    FROM usage_credits c WHERE c.interval_id = u.id) AS credited
         WHERE u.project_id = $1 AND ($2::uuid IS NULL OR u.allocation_id = $2)";

/// A page of the intervals that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list(
    conn: &mut PgConnection,
    filter: Filter,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> Result<(Vec<Interval>, String)> {
    let statement = Statement::new(&[INTERVALS])
        .bind(filter.project_id)
        .bind(filter.allocation_id);
    selection.page(conn, statement, wanted).await
}

/// Sums of one currency. Text, since a sum of 64-bit numbers needs more than 64 bits.
#[derive(Debug, Clone, FromRow)]
pub struct Total {
    currency: String,
    gpu_microseconds: String,
    credited_gpu_microseconds: String,
    amount_nanos: String,
}

impl Total {
    /// The currency.
    pub fn currency(&self) -> Currency {
        Currency::parse(&self.currency).expect("the table checks the currency code")
    }

    /// GPUs x microseconds; `None` beyond 64 bits.
    pub fn gpu_microseconds(&self) -> Option<i64> {
        self.gpu_microseconds.parse().ok()
    }

    /// GPUs x microseconds that are not charged; `None` beyond 64 bits.
    pub fn credited_gpu_microseconds(&self) -> Option<i64> {
        self.credited_gpu_microseconds.parse().ok()
    }

    /// Sum of the lines, each rounded once; `None` beyond 128 bits.
    pub fn amount_nanos(&self) -> Option<i128> {
        self.amount_nanos.parse().ok()
    }
}

/// Sums over all matching intervals, by currency, as of the same instant as [`list`] in this transaction.
///
/// # Errors
/// Database errors.
pub async fn totals(
    conn: &mut PgConnection,
    filter: Filter,
    selection: &Selection,
) -> sqlx::Result<Vec<Total>> {
    let mut arguments = PgArguments::default();
    arguments
        .add(filter.project_id)
        .map_err(sqlx::Error::Encode)?;
    arguments
        .add(filter.allocation_id)
        .map_err(sqlx::Error::Encode)?;
    let mut query = QueryBuilder::<Postgres>::with_arguments(
        "SELECT currency,
                sum(gpu_count::numeric * microseconds)::text AS gpu_microseconds,
                sum(gpu_count::numeric * credited_microseconds)::text AS credited_gpu_microseconds,
                sum(line_amount_nanos(gpu_count, microseconds - credited_microseconds, price_nanos))::text AS amount_nanos
         FROM (",
        arguments,
    );
    query.push(INTERVALS).push(") AS listed WHERE true");
    selection.push_filter(&mut query);
    query.push(" GROUP BY currency ORDER BY currency");
    query.build_query_as().fetch_all(conn).await
}

/// A page of the log, whose events opened periods.
#[derive(Debug, Clone, Copy)]
pub struct Opened {
    /// Position before the first event of the page.
    pub after: i64,
    /// Position of its last event.
    pub last: i64,
    /// As of this position: what a later event closed counts as open. What is closed at a position that usage has not
    /// reached, no event closed, and counts as it is.
    pub upto: i64,
}

/// Billed periods that began at a position or before, and were open there: they are still open, or a later event closed them;
/// by allocation, as of the position `upto` as in [`Opened`].
///
/// # Errors
/// Database errors.
pub async fn carried(executor: impl PgExecutor<'_>, at: i64, upto: i64) -> sqlx::Result<Periods> {
    let rows = sqlx::query_as(
        "SELECT allocation_id, started_at,
                CASE WHEN closed_position <= $2 OR closed_position > p.position THEN ended_at END
           FROM usage_intervals, consumer_position p
          WHERE consumer = $3 AND opened_position <= $1 AND (closed_position > $1 OR ended_at IS NULL)",
    )
    .bind(at)
    .bind(upto)
    .bind(position::CONSUMER)
    .fetch_all(executor)
    .await?;
    Ok(by_allocation(rows))
}

/// Billed periods that events of a page of the log opened, by allocation.
///
/// # Errors
/// Database errors.
pub async fn periods(executor: impl PgExecutor<'_>, opened: Opened) -> sqlx::Result<Periods> {
    let rows = sqlx::query_as(
        "SELECT allocation_id, started_at,
                CASE WHEN closed_position <= $3 OR closed_position > p.position THEN ended_at END
           FROM usage_intervals, consumer_position p
          WHERE consumer = $4 AND opened_position > $1 AND opened_position <= $2",
    )
    .bind(opened.after)
    .bind(opened.last)
    .bind(opened.upto)
    .bind(position::CONSUMER)
    .fetch_all(executor)
    .await?;
    Ok(by_allocation(rows))
}

/// Billed periods that were opened at positions which usage has not reached, by allocation: no event opened them.
///
/// # Errors
/// Database errors.
pub async fn periods_ahead(executor: impl PgExecutor<'_>) -> sqlx::Result<Periods> {
    let rows = sqlx::query_as(
        "SELECT allocation_id, started_at, ended_at FROM usage_intervals
          WHERE opened_position > (SELECT position FROM consumer_position WHERE consumer = $1)",
    )
    .bind(position::CONSUMER)
    .fetch_all(executor)
    .await?;
    Ok(by_allocation(rows))
}

fn by_allocation(rows: Vec<(Uuid, Timestamp, Option<Timestamp>)>) -> Periods {
    let mut periods = Periods::new();
    for (allocation_id, start, end) in rows {
        let period = Period {
            start: start.to_jiff(),
            end: end.map(Timestamp::to_jiff),
        };
        periods.entry(allocation_id).or_default().push(period);
    }
    periods
}
