//! Filters, orders and page tokens that are refused.
use std::collections::BTreeMap;

use gpuaas_common::select::{MAX_CHARS, MAX_COMPARISONS, MAX_DEPTH, Selection, Statement, Wanted};
use gpuaas_dev::postgres::TestDb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{CATALOG, Micros, Row, STATEMENT, connection, fill};

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
