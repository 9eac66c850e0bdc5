//! Filters and orders of lists: what they say, what they refuse, and that a database selects what memory would.
use std::collections::BTreeMap;

use gpuaas_common::Error;
use gpuaas_common::select::{
    Catalog, Field, Kind, MAX_CHARS, MAX_COMPARISONS, MAX_DEPTH, Selection, Statement, Wanted,
};
use gpuaas_dev::postgres::TestDb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
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

// ── what memory would select ──

#[derive(Clone, Debug)]
enum Model {
    Name(&'static str, String),
    NameHas(String),
    State(&'static str, &'static str),
    Number(&'static str, i64),
    Created(&'static str, i64),
    Ended(&'static str, i64),
    IsEnded,
    Lab(&'static str, bool),
    Label(&'static str, String, String),
    HasLabel(String),
    Not(Box<Model>),
    All(Vec<Model>),
    Any(Vec<Model>),
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn time(micros: i64) -> String {
    quoted(
        &Timestamp::from_microsecond(micros)
            .expect("a time")
            .to_string(),
    )
}

fn compared<T: PartialOrd + ?Sized>(operator: &str, one: &T, other: &T) -> bool {
    match operator {
        "=" => one == other,
        "!=" => one != other,
        "<" => one < other,
        "<=" => one <= other,
        ">" => one > other,
        _ => one >= other,
    }
}

impl Model {
    fn text(&self) -> String {
        let joined = |parts: &[Self], joint: &str| {
            let parts: Vec<_> = parts
                .iter()
                .map(|part| format!("({})", part.text()))
                .collect();
            parts.join(joint)
        };
        match self {
            Self::Name(operator, name) => format!("name {operator} {}", quoted(name)),
            Self::NameHas(part) => format!("name:{}", quoted(part)),
            Self::State(operator, state) => format!("state{operator}{state}"),
            Self::Number(operator, number) => format!("count {operator} {number}"),
            Self::Created(operator, at) => format!("create_time {operator} {}", time(*at)),
            Self::Ended(operator, at) => format!("end_time {operator} {}", time(*at)),
            Self::IsEnded => "end_time:*".to_owned(),
            Self::Lab(operator, lab) => format!("lab {operator} {lab}"),
            Self::Label(operator, key, value) => {
                format!("labels.{} {operator} {}", quoted(key), quoted(value))
            }
            Self::HasLabel(key) => format!("labels:{}", quoted(key)),
            Self::Not(inner) => format!("NOT ({})", inner.text()),
            Self::All(parts) => joined(parts, " AND "),
            Self::Any(parts) => joined(parts, " OR "),
        }
    }

    fn takes(&self, row: &Row) -> bool {
        match self {
            Self::Name(operator, name) => compared(operator, &row.name, name),
            Self::NameHas(part) => row.name.to_lowercase().contains(&part.to_lowercase()),
            Self::State(operator, state) => compared(operator, row.state.as_str(), *state),
            Self::Number(operator, number) => compared(operator, &i64::from(row.number), number),
            Self::Created(operator, at) => compared(operator, &row.created.0, at),
            Self::Ended(operator, at) => match row.ended {
                Some(ended) => compared(operator, &ended, at),
                None => *operator == "!=",
            },
            Self::IsEnded => row.ended.is_some(),
            Self::Lab(operator, lab) => compared(operator, &row.lab, lab),
            Self::Label(operator, key, value) => match row.labels.0.get(key) {
                Some(label) => compared(operator, label, value),
                None => *operator == "!=",
            },
            Self::HasLabel(key) => row.labels.0.contains_key(key),
            Self::Not(inner) => !inner.takes(row),
            Self::All(parts) => parts.iter().all(|part| part.takes(row)),
            Self::Any(parts) => parts.iter().any(|part| part.takes(row)),
        }
    }
}

/// Short, so that rows meet; with all that has a meaning in filters, SQL or patterns.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[abAB]{0,2}",
        1 => r#"[a"'\\%_;$*(){} .:-]{1,4}"#,
        1 => Just("' OR 1=1 --".to_owned()),
        1 => Just("日本".to_owned()),
    ]
}

fn moment() -> impl Strategy<Value = i64> {
    (0_i64..6).prop_map(|step| 1_700_000_000_000_000 + step)
}

fn row() -> impl Strategy<Value = Row> {
    (
        any::<u128>(),
        word(),
        prop::sample::select(STATES),
        -2_i32..3,
        moment(),
        prop::option::of(moment()),
        any::<bool>(),
        prop::collection::btree_map("[ab]|a/b\\.c", word(), 0..3),
    )
        .prop_map(
            |(id, name, state, number, created, ended, lab, labels)| Row {
                id: Uuid::from_u128(id),
                name,
                state: state.to_owned(),
                number,
                created: Micros(created),
                ended,
                lab,
                labels: Json(labels),
            },
        )
}

fn model() -> impl Strategy<Value = Model> {
    let equal = || prop::sample::select(vec!["=", "!="]);
    let order = || prop::sample::select(vec!["=", "!=", "<", "<=", ">", ">="]);
    let leaf = prop_oneof![
        (equal(), word()).prop_map(|(operator, name)| Model::Name(operator, name)),
        word().prop_map(Model::NameHas),
        (equal(), prop::sample::select(STATES))
            .prop_map(|(operator, state)| Model::State(operator, state)),
        (order(), -2_i64..3).prop_map(|(operator, number)| Model::Number(operator, number)),
        (order(), moment()).prop_map(|(operator, at)| Model::Created(operator, at)),
        (order(), moment()).prop_map(|(operator, at)| Model::Ended(operator, at)),
        Just(Model::IsEnded),
        (equal(), any::<bool>()).prop_map(|(operator, lab)| Model::Lab(operator, lab)),
        (equal(), "[ab]|a/b\\.c", word())
            .prop_map(|(operator, key, value)| Model::Label(operator, key, value)),
        "[ab]|a/b\\.c".prop_map(Model::HasLabel),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|one| Model::Not(Box::new(one))),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Model::All),
            prop::collection::vec(inner, 1..4).prop_map(Model::Any),
        ]
    })
}

/// An order, and what it is in memory.
fn order() -> impl Strategy<Value = Vec<(&'static str, bool)>> {
    let fields = vec!["state", "count", "create_time", "lab"];
    prop::sample::subsequence(fields, 0..3)
        .prop_shuffle()
        .prop_flat_map(|fields| {
            let length = fields.len();
            (Just(fields), prop::collection::vec(any::<bool>(), length))
                .prop_map(|(fields, ways)| fields.into_iter().zip(ways).collect())
        })
}

fn sorted(mut rows: Vec<Row>, order: &[(&'static str, bool)]) -> Vec<Row> {
    let order = match order {
        [] => &[("create_time", true)],
        order => order,
    };
    rows.sort_by(|one, other| {
        let last = order.last().is_some_and(|(_, descending)| *descending);
        let fields = order.iter().copied().chain([("id", last)]);
        fields
            .map(|(field, descending)| {
                let compared = match field {
                    "state" => one.state.cmp(&other.state),
                    "count" => one.number.cmp(&other.number),
                    "create_time" => one.created.cmp(&other.created),
                    "lab" => one.lab.cmp(&other.lab),
                    _ => one.id.cmp(&other.id),
                };
                if descending {
                    compared.reverse()
                } else {
                    compared
                }
            })
            .fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
    rows
}

#[test]
fn a_list_selects_and_orders_what_memory_would_page_by_page() {
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    let db = runtime.block_on(TestDb::create());
    let conn = std::cell::RefCell::new(runtime.block_on(connection(&db)));
    let rows = prop::collection::vec(row(), 0..9).prop_map(|mut rows| {
        rows.sort_by_key(|row| row.id);
        rows.dedup_by_key(|row| row.id);
        rows
    });
    let mut runner = TestRunner::new(Config {
        cases: 400,
        failure_persistence: None,
        ..Config::default()
    });
    let cases = (rows, model(), order(), 1_i64..4);
    let met = std::cell::Cell::new((0_usize, 0_usize));
    let held = runner.run(&cases, |(rows, model, order, size)| {
        let expected: Vec<Row> = rows
            .iter()
            .filter(|row| model.takes(row))
            .cloned()
            .collect();
        let (kept, left) = met.get();
        met.set((kept + expected.len(), left + rows.len() - expected.len()));
        let text: Vec<_> = order
            .iter()
            .map(|(field, descending)| format!("{field}{}", if *descending { " desc" } else { "" }))
            .collect();
        let mut conn = conn.borrow_mut();
        let found = runtime.block_on(async {
            fill(&mut conn, &rows).await;
            pages(&mut conn, &model.text(), &text.join(", "), size).await
        });
        prop_assert_eq!(
            found.expect("selected"),
            sorted(expected, &order),
            "{}",
            model.text()
        );
        Ok(())
    });
    held.expect("the same rows in the same order");
    let (kept, left) = met.get();
    assert!(
        kept > 100 && left > 100,
        "{kept} rows kept, {left} left out"
    );
}

fn refusal(filter: &str, order_by: &str) -> (String, String) {
    let error = Selection::parse(&CATALOG, filter, order_by).expect_err(filter);
    assert_eq!(error.reason(), ErrorReason::FieldInvalid);
    error.fields()[0].clone()
}

#[test]
fn filters_that_are_wrong_are_refused_with_field_place_and_rule() {
    for (filter, expected) in [
        (
            "colour = red",
            "at character 1: there is no field \"colour\"; there are id, name, state, count, create_time, end_time, lab, labels",
        ),
        ("name", "at character 5: ends where an operator belongs"),
        ("name =", "at character 7: ends where a value belongs"),
        ("= a", "at character 1: = stands where a field belongs"),
        ("name a", "at character 6: \"a\" stands where ="),
        ("name = a b", "at character 10: \"b\" is not expected here"),
        (
            "name = a and state = active",
            "at character 10: \"and\" is not expected here",
        ),
        (
            "name = a AND",
            "at character 13: ends where a field belongs",
        ),
        (
            "name = a AND lab = true OR lab = false",
            "at character 25: AND and OR beside each other need parentheses",
        ),
        (
            "(name = a",
            "at character 10: ends where a closing parenthesis belongs",
        ),
        ("name = a)", "at character 9: ) is not expected here"),
        ("name < a", "at character 6: name takes =, !=, : only"),
        ("state : active", "at character 7: state takes =, != only"),
        (
            "state = Active",
            "at character 9: state is never \"Active\"; it is one of active, failed, queued",
        ),
        (
            "count = many",
            "at character 9: count is a whole number of 64 bits",
        ),
        (
            "count = 9223372036854775808",
            "at character 9: count is a whole number of 64 bits",
        ),
        (
            "count = 1.5",
            "at character 9: count is a whole number of 64 bits",
        ),
        (
            "create_time > yesterday",
            "at character 15: create_time is a time such as",
        ),
        (
            "create_time > -009999-01-01",
            "at character 15: create_time is a time such as",
        ),
        (
            "create_time > 1969-12-31",
            "at character 15: create_time is a time such as",
        ),
        ("lab = yes", "at character 7: lab is true or false"),
        ("id = 7", "at character 6: id is a UUID"),
        ("id < 7", "at character 4: id takes =, != only"),
        (
            "labels = ml",
            "at character 8: name one of the labels: labels.KEY = …",
        ),
        (
            "labels.team < ml",
            "at character 13: labels takes =, !=, : only",
        ),
        (
            "labels. = ml",
            "at character 9: = stands where a key belongs",
        ),
        (
            "name.first = a",
            "at character 5: name has no fields of its own",
        ),
        (
            "name = *",
            "at character 8: * says after : only that a field is set",
        ),
        ("name = \"a", "at character 8: the quote is not closed"),
        (
            r#"name = "a\n""#,
            "at character 8: \\ may stand before a quote",
        ),
        ("name = \"a\0\"", "at character 8: a text must not hold NUL"),
        (
            "name = 'a'; DROP TABLE rows",
            "at character 11: ';' has no meaning here",
        ),
        ("name = $1", "at character 8: '$' has no meaning here"),
        ("name % a", "at character 6: '%' has no meaning here"),
        (
            "listed.name = a",
            "at character 1: there is no field \"listed\"",
        ),
        ("NAME = a", "at character 1: there is no field \"NAME\""),
        ("🚀 = a", "at character 1: '🚀' has no meaning here"),
    ] {
        let (field, rule) = refusal(filter, "");
        assert_eq!(field, "filter");
        assert!(rule.contains(expected), "{filter}\n{rule}\n{expected}");
    }
    let comparisons = |count: usize| vec!["count=1"; count].join(" OR ");
    let deep = |depth: usize| format!("{}lab=true{}", "(".repeat(depth), ")".repeat(depth));
    let long = |length: usize| format!("name = {}", "a".repeat(length - 7));
    for (good, bad, expected) in [
        (
            comparisons(MAX_COMPARISONS),
            comparisons(MAX_COMPARISONS + 1),
            "more than 32 comparisons",
        ),
        (deep(MAX_DEPTH), deep(MAX_DEPTH + 1), "nests deeper than 8"),
        (
            long(MAX_CHARS),
            long(MAX_CHARS + 1),
            "must be at most 1000 characters",
        ),
        (
            "NOT ".repeat(MAX_DEPTH) + "lab=true",
            "NOT ".repeat(MAX_DEPTH + 1) + "lab=true",
            "nests deeper than 8",
        ),
    ] {
        Selection::parse(&CATALOG, &good, "").expect("within the bound");
        assert!(refusal(&bad, "").1.contains(expected), "{expected}");
    }
}

#[test]
fn orders_that_are_wrong_are_refused() {
    for (order_by, expected) in [
        (
            "colour",
            "there is no order by \"colour\"; there are name, state, count, create_time, lab",
        ),
        ("labels", "there is no order by \"labels\""),
        ("end_time", "there is no order by \"end_time\""),
        ("name down", "name may be followed by asc or desc only"),
        ("name desc desc", "name may be followed by asc or desc only"),
        ("name DESC", "name may be followed by asc or desc only"),
        ("name,", "there is no order by \"\""),
        ("name, name desc", "names name twice"),
        ("name, state, count, lab", "must be at most 3 fields"),
        ("name; DROP TABLE rows", "there is no order by \"name;\""),
    ] {
        let (field, rule) = refusal("", order_by);
        assert_eq!(field, "order_by");
        assert!(rule.contains(expected), "{order_by}\n{rule}");
    }
    let long = "a".repeat(MAX_CHARS + 1);
    assert_eq!(refusal("", &long).1, "must be at most 1000 characters");
}

#[tokio::test]
async fn a_page_token_belongs_to_its_filter_and_order_and_cannot_be_made_up() {
    let db = TestDb::create().await;
    let mut conn = connection(&db).await;
    let rows: Vec<Row> = (0..3)
        .map(|number| Row {
            id: Uuid::from_u128(number + 1),
            name: format!("n{number}"),
            state: "active".to_owned(),
            number: 1,
            created: Micros(1_700_000_000_000_000),
            ended: None,
            lab: true,
            labels: Json(BTreeMap::new()),
        })
        .collect();
    fill(&mut conn, &rows).await;
    let page = async |conn: &mut PgConnection, filter: &str, order: &str, page_token: &str| {
        let selection = Selection::parse(&CATALOG, filter, order)?;
        let wanted = Wanted {
            page_token,
            size: 2,
            query: &["test"],
        };
        let statement = Statement::new(STATEMENT).bind(0_i32);
        selection.page::<Row>(conn, statement, wanted).await
    };
    let (first, token) = page(&mut conn, "lab = true", "count, create_time desc", "")
        .await
        .expect("a page");
    assert_eq!(first.len(), 2);
    let (rest, end) = page(&mut conn, " lab = true ", "count, create_time desc", &token)
        .await
        .expect("the next page");
    assert_eq!((rest.len(), end.as_str()), (1, ""));
    for (filter, order) in [
        ("", "count, create_time desc"),
        ("lab != false", "count, create_time desc"),
        ("lab = true", ""),
        ("lab = true", "count, create_time"),
    ] {
        let refused = page(&mut conn, filter, order, &token).await;
        let error = refused.expect_err("another query");
        assert_eq!(error.reason(), ErrorReason::PageTokenInvalid);
    }
    let id = Uuid::nil().to_string();
    for position in [
        serde_json::json!([]),
        serde_json::json!([1, 1]),
        serde_json::json!([1, 1, "x"]),
        serde_json::json!(["1", 1, id]),
        serde_json::json!([1, "1; DROP TABLE rows", id]),
        serde_json::json!([1, i64::MIN, id]),
        serde_json::json!([1, i64::MAX, id]),
        serde_json::json!([1, 1, id, id]),
    ] {
        let query = ["test", "lab = true", "count, create_time desc"];
        let token = gpuaas_common::page::encode(&position, &query);
        let refused = page(&mut conn, "lab = true", "count, create_time desc", &token).await;
        let error = refused.expect_err("made up");
        assert_eq!(error.reason(), ErrorReason::PageTokenInvalid, "{position}");
    }
}
