//! Filters and orders of lists: what they say, what they refuse, and that a database selects what memory would.
mod memory;
mod refused;

use std::collections::BTreeMap;

use gpuaas_common::Error;
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use gpuaas_dev::postgres::TestDb;
use sqlx::types::Json;
use sqlx::{Executor as _, PgConnection};
use uuid::Uuid;

const STATES: &[&str] = &["active", "failed", "queued"];

static CATALOG: Catalog = Catalog {
    fields: &[
        Field::new("id", Kind::Id, "listed.id"),
        Field::sortable("name", Kind::Text, "listed.name"),
        Field::sortable("state", Kind::OneOf(STATES), "listed.state"),
        Field::sortable("count", Kind::Number, "listed.number"),
        Field::sortable("create_time", Kind::Time, "listed.created_at"),
        Field::new("end_time", Kind::Time, "listed.ended_at"),
        Field::sortable("lab", Kind::Flag, "listed.lab"),
        Field::new("labels", Kind::Labels, "listed.labels"),
    ],
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "create_time desc",
};

#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
struct Row {
    id: Uuid,
    name: String,
    state: String,
    number: i32,
    #[sqlx(try_from = "i64")]
    created: Micros,
    ended: Option<i64>,
    lab: bool,
    labels: Json<BTreeMap<String, String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Micros(i64);

impl From<i64> for Micros {
    fn from(micros: i64) -> Self {
        Self(micros)
    }
}

const STATEMENT: &[&str] = &[
    "SELECT id, name, state, number, created_at, ended_at, lab, labels, ",
    "(extract(epoch FROM created_at) * 1000000)::bigint AS created, ",
    "(extract(epoch FROM ended_at) * 1000000)::bigint AS ended FROM rows WHERE number > $1",
];

async fn connection(db: &TestDb) -> PgConnection {
    let mut conn = db.server().superuser(db.name()).await.expect("superuser");
    let table = "CREATE TEMP TABLE rows (id uuid PRIMARY KEY, name text NOT NULL, state text NOT NULL, number integer NOT NULL,
                   created_at timestamptz NOT NULL, ended_at timestamptz, lab boolean NOT NULL, labels jsonb NOT NULL)";
    conn.execute(table).await.expect("a table");
    conn
}

async fn fill(conn: &mut PgConnection, rows: &[Row]) {
    conn.execute("TRUNCATE rows").await.expect("empty");
    for row in rows {
        sqlx::query(
            "INSERT INTO rows VALUES ($1, $2, $3, $4, timestamptz 'epoch' + interval '1 microsecond' * $5,
                                      timestamptz 'epoch' + interval '1 microsecond' * $6, $7, $8)",
        )
        .bind(row.id)
        .bind(&row.name)
        .bind(&row.state)
        .bind(row.number)
        .bind(row.created.0)
        .bind(row.ended)
        .bind(row.lab)
        .bind(&row.labels)
        .execute(&mut *conn)
        .await
        .expect("a row");
    }
}

/// All pages of a selection, one after the other.
async fn pages(
    conn: &mut PgConnection,
    filter: &str,
    order_by: &str,
    size: i64,
) -> Result<Vec<Row>, Error> {
    let selection = Selection::parse(&CATALOG, filter, order_by)?;
    let (mut all, mut token) = (Vec::new(), String::new());
    loop {
        let wanted = Wanted {
            page_token: &token,
            size,
            query: &["test"],
        };
        let statement = Statement::new(STATEMENT).bind(-1_000_i32);
        let (rows, next) = selection.page::<Row>(conn, statement, wanted).await?;
        assert!(rows.len() as i64 <= size);
        all.extend(rows);
        if next.is_empty() {
            return Ok(all);
        }
        token = next;
    }
}
