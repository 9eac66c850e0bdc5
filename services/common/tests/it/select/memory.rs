//! What memory would select, and that a database selects the same.
use gpuaas_dev::postgres::TestDb;
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sqlx::types::Json;
use uuid::Uuid;

use super::{Micros, Row, STATES, connection, fill, pages};

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
