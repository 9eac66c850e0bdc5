//! What is refused, and how it is named.
use http::Method;

use super::request;

#[test]
fn what_is_refused_and_how_it_is_named() {
    let long = "1".repeat(400);
    let table: &[(Method, &str, &str, &str, &str, &str)] = &[
        (
            Method::GET,
            "/v1/animals/a1?colour=red",
            "",
            "FIELD_UNKNOWN",
            "colour",
            "is not a known query parameter",
        ),
        (
            Method::GET,
            "/v1/animals/a1?readMask=name",
            "",
            "FIELD_UNKNOWN",
            "readMask",
            "did you mean read_mask?",
        ),
        (
            Method::GET,
            "/v1/animals/a1?id=b",
            "",
            "FIELD_UNKNOWN",
            "id",
            "must not be given in the query",
        ),
        (
            Method::GET,
            "/v1/animals/a1?filter.diets=fish",
            "",
            "FIELD_INVALID",
            "filter.diets",
            "must be one of meat, plants_only",
        ),
        (
            Method::GET,
            "/v1/animals/a1?deep=yes",
            "",
            "FIELD_INVALID",
            "deep",
            "must be true or false",
        ),
        (
            Method::GET,
            "/v1/animals/a1?deep=true&deep=false",
            "",
            "FIELD_INVALID",
            "deep",
            "is given more than once",
        ),
        (
            Method::GET,
            "/v1/animals/a1?pages=-1",
            "",
            "FIELD_INVALID",
            "pages",
            "must be a whole number from 0 to 4294967295",
        ),
        (
            Method::GET,
            "/v1/animals/a1?deep=%zz",
            "",
            "FIELD_INVALID",
            "deep",
            "is not correctly percent-encoded",
        ),
        (
            Method::GET,
            "/v1/animals/a1?filter.since=monday",
            "",
            "FIELD_INVALID",
            "filter.since",
            "RFC 3339",
        ),
        (
            Method::GET,
            "/v1/animals/a1",
            "{}",
            "BODY_MALFORMED",
            "",
            "",
        ),
        (Method::PUT, "/v1/animals/a1", "{", "BODY_MALFORMED", "", ""),
        (
            Method::PUT,
            "/v1/animals/a1",
            "{} {}",
            "BODY_MALFORMED",
            "",
            "",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            "\u{feff}{}",
            "BODY_MALFORMED",
            "",
            "",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            "[]",
            "FIELD_INVALID",
            "animal",
            "must be an object, not a list",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            "",
            "FIELD_REQUIRED",
            "animal.name",
            "is required",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","mother":{}}"#,
            "FIELD_REQUIRED",
            "animal.mother.name",
            "is required",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","colour":1}"#,
            "FIELD_UNKNOWN",
            "animal.colour",
            "is not a known field",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","weightMg":1}"#,
            "FIELD_UNKNOWN",
            "animal.weightMg",
            "did you mean weight_mg?",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","name":"M"}"#,
            "FIELD_INVALID",
            "animal.name",
            "is given more than once",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","counts":{"a":1,"a":2}}"#,
            "FIELD_INVALID",
            "animal.counts.a",
            "is given more than once",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","id":"a2"}"#,
            "FIELD_INVALID",
            "animal.id",
            "must equal the value in the path",
        ),
        (
            Method::PUT,
            "/v1/animals/a1?animal.name=x",
            r#"{"name":"L"}"#,
            "FIELD_UNKNOWN",
            "animal.name",
            "must not be given in the query",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":7}"#,
            "FIELD_INVALID",
            "animal.name",
            "must be a string, not a number",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"a\u0000b"}"#,
            "FIELD_INVALID",
            "animal.name",
            "NUL",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","diet":"fish"}"#,
            "FIELD_INVALID",
            "animal.diet",
            "must be one of meat, plants_only",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","diet":"Meat"}"#,
            "FIELD_INVALID",
            "animal.diet",
            "must be one of",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","diet":1}"#,
            "FIELD_INVALID",
            "animal.diet",
            "must be one of",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","names":"x"}"#,
            "FIELD_INVALID",
            "animal.names",
            "must be a list, not a string",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","names":["x",null]}"#,
            "FIELD_INVALID",
            "animal.names[1]",
            "must be a string, not null",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","counts":[]}"#,
            "FIELD_INVALID",
            "animal.counts",
            "must be an object, not a list",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","legs":1.5}"#,
            "FIELD_INVALID",
            "animal.legs",
            "must be a whole number",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","legs":2147483648}"#,
            "FIELD_INVALID",
            "animal.legs",
            "must be a whole number",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","legs":"+4"}"#,
            "FIELD_INVALID",
            "animal.legs",
            "must be a whole number",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","tame":"true"}"#,
            "FIELD_INVALID",
            "animal.tame",
            "must be true or false, not a string",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","tag":"***"}"#,
            "FIELD_INVALID",
            "animal.tag",
            "must be a base64 string",
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","born":"yesterday"}"#,
            "FIELD_INVALID",
            "animal.born",
            "RFC 3339",
        ),
        (
            Method::POST,
            "/v1/animals/a1:feed",
            r#"{"food_name":"hay","grams":1,"pieces":2}"#,
            "FIELD_INVALID",
            "pieces",
            "must not be given together with grams",
        ),
        (
            Method::POST,
            "/v1/animals/a1:feed?food_name=hay",
            "{}",
            "FIELD_UNKNOWN",
            "food_name",
            "must not be given in the query",
        ),
        (
            Method::POST,
            "/v1/animals/a1:feed",
            &format!(r#"{{"food_name":"hay","grams":{long}}}"#),
            "BODY_MALFORMED",
            "",
            "",
        ),
    ];
    for (method, target, body, reason, field, rule) in table {
        let error = request(method, target, body).expect_err(&format!("{method} {target} {body}"));
        assert_eq!(
            error.reason(),
            *reason,
            "{method} {target} {body}: {}",
            error.message()
        );
        assert_eq!(error.http_status().as_u16(), 400);
        if !field.is_empty() {
            let (got_field, got_rule) = &error.violations()[0];
            assert_eq!(got_field, field, "{method} {target} {body}");
            assert!(
                got_rule.contains(rule),
                "{method} {target} {body}: {got_rule}"
            );
        }
    }
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    let body = format!(
        "{}{}",
        r#"{"name":"L","mother":"#.repeat(5000),
        "}".repeat(5000)
    );
    assert_eq!(
        request(&Method::PUT, "/v1/animals/a1", &body)
            .expect_err("refused")
            .reason(),
        "BODY_MALFORMED"
    );
}

#[test]
fn all_problems_are_named_at_once_up_to_a_limit() {
    let error =
        request(&Method::PUT, "/v1/animals/a1", r#"{"legs":"x","colour":1}"#).expect_err("refused");
    let fields: Vec<&str> = error.violations().iter().map(|(f, _)| f.as_str()).collect();
    assert_eq!(fields, ["animal.legs", "animal.colour", "animal.name"]);
    assert!(
        error.message().ends_with("(2 more)."),
        "{}",
        error.message()
    );
    let many: String = (0..100).map(|i| format!(r#""x{i}":1,"#)).collect();
    let error = request(
        &Method::PUT,
        "/v1/animals/a1",
        &format!(r#"{{{many}"name":"L"}}"#),
    )
    .expect_err("refused");
    assert_eq!(error.violations().len(), 20);
}
