//! What is understood, and as what.
use http::Method;

use super::{request, shown};

#[test]
fn what_binds() {
    let table: &[(Method, &str, &str, &str)] = &[
        (Method::GET, "/v1/animals/a%20b", "", r#"{"id":"a b"}"#),
        (
            Method::GET,
            "/v1/cages/c1/animals/a1",
            "",
            r#"{"id":"a1","filter":{"cage":"c1"}}"#,
        ),
        (
            Method::GET,
            "/v1/animals/a1?filter.cage=c+1&filter.diets=meat&filter.diets=DIET_PLANTS_ONLY&pages=1&pages=2&deep=true",
            "",
            r#"{"id":"a1","filter":{"cage":"c 1","diets":["meat","plants_only"]},"pages":[1,2],"deep":true}"#,
        ),
        (
            Method::GET,
            "/v1/animals/a1?filter.since=2026-01-31T12:00:00Z",
            "",
            r#"{"id":"a1","filter":{"since":"2026-01-31T12:00:00Z"}}"#,
        ),
        (
            Method::GET,
            "/v1/animals/a1?read_mask=name,diet",
            "",
            r#"{"id":"a1","read_mask":"name,diet"}"#,
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"Leo"}"#,
            r#"{"animal":{"id":"a1","name":"Leo"}}"#,
        ),
        (
            Method::PUT,
            "/v1/animals/a1?validate_only=true",
            r#"{"id":"a1","name":"Leo"}"#,
            r#"{"animal":{"id":"a1","name":"Leo"},"validate_only":true}"#,
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"Leo","seen_by":"me","age":null}"#,
            r#"{"animal":{"id":"a1","name":"Leo"}}"#,
        ),
        (
            Method::PUT,
            "/v1/animals/a1",
            r#"{"name":"L","diet":"meat","weight_mg":"-5","steps":18446744073709551615,"speed":1.5,"tag":"AQI=","age":0,"names":["x"],"counts":{"b":1,"a":-2},"mother":{"name":"M"},"born":"2026-01-01T00:00:00.5Z","legs":4.0}"#,
            r#"{"animal":{"id":"a1","name":"L","diet":"meat","weight_mg":"-5","steps":"18446744073709551615","speed":1.5,"tag":"AQI=","age":0,"names":["x"],"counts":{"a":-2,"b":1},"mother":{"name":"M"},"born":"2026-01-01T00:00:00.500Z","legs":4}}"#,
        ),
        (
            Method::PATCH,
            "/v1/animals/a1",
            r#"{"name":"L","mother":{"name":"M"}}"#,
            r#"{"animal":{"id":"a1","name":"L","mother":{"name":"M"}},"update_mask":"name,mother.name"}"#,
        ),
        (
            Method::PATCH,
            "/v1/animals/a1?update_mask=diet,name",
            r#"{"name":"L"}"#,
            r#"{"animal":{"id":"a1","name":"L"},"update_mask":"diet,name"}"#,
        ),
        (
            Method::POST,
            "/v1/animals/a1:feed",
            r#"{"food_name":"hay","grams":0,"pause":"1.5s","notes":{"a":[1,null]}}"#,
            r#"{"id":"a1","food_name":"hay","grams":0,"pause":"1.500s","notes":{"a":[1.0,null]}}"#,
        ),
    ];
    for (method, target, body, expected) in table {
        let message = request(method, target, body)
            .unwrap_or_else(|e| panic!("{method} {target}: {} {:?}", e.message(), e.violations()));
        assert_eq!(shown(&message), *expected, "{method} {target}");
    }
}
