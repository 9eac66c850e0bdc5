//! Which pages may call the API from a browser, at every kind of answer.
use gpuaas_gateway::page_origin::PageOrigin;
use http::Method;
use reqwest::Response;
use reqwest::header::HeaderMap;

use crate::world::World;

const ALLOWED: &str = "https://app.example.com";
const PATH: &str = "/api/v1/allocations";

async fn world(origins: &[&str]) -> World {
    let origins = origins.iter().map(|origin| (*origin).to_owned());
    let origins = origins.map(|origin| PageOrigin::try_from(origin).expect("an origin"));
    let origins: Vec<_> = origins.collect();
    World::start_with(|config, _| config.cors_origins = origins).await
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    let value = headers.get(name);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

async fn preflight(world: &World, path: &str, origins: &[&str]) -> Response {
    let mut request = world
        .http
        .request(Method::OPTIONS, world.url(path))
        .header("access-control-request-method", "POST")
        .header(
            "access-control-request-headers",
            "authorization, content-type, x-idempotency-key",
        );
    for origin in origins {
        request = request.header("origin", *origin);
    }
    request.send().await.expect("an answer")
}

#[tokio::test]
async fn only_pages_on_the_list_may_call_and_never_with_cookies() {
    let world = world(&[ALLOWED, "http://localhost:5173"]).await;
    for (origins, allowed) in [
        (vec![ALLOWED], true),
        (vec!["http://localhost:5173"], true),
        (vec![], false),
        (vec!["null"], false),
        (vec!["*"], false),
        (vec![""], false),
        (vec!["https://app.example.com.evil.example"], false),
        (vec!["https://evilapp.example.com"], false),
        (vec!["https://evil.app.example.com"], false),
        (vec!["https://example.com"], false),
        (vec!["https://app.example.com:443"], false),
        (vec!["https://app.example.com:8443"], false),
        (vec!["http://app.example.com"], false),
        (vec!["https://APP.example.com"], false),
        (vec!["HTTPS://app.example.com"], false),
        (vec!["https://app.example.com/"], false),
        (vec!["https://app.example.com."], false),
        (vec!["https://app.example.com, https://evil.example"], false),
        (vec!["https://user@app.example.com"], false),
        (vec!["http://localhost"], false),
        (vec!["http://localhost:51730"], false),
        (vec![ALLOWED, "https://evil.example"], false),
        (vec!["https://evil.example", ALLOWED], false),
    ] {
        let answer = preflight(&world, PATH, &origins).await;
        assert_eq!(answer.status(), 200, "before anybody is asked for a token");
        let mut call = world
            .http
            .get(world.url(PATH))
            .bearer_auth(world.token("demo"));
        for origin in &origins {
            call = call.header("origin", *origin);
        }
        let called = call.send().await.expect("an answer");
        assert_eq!(called.status(), 200, "it is the browser that keeps answers");
        for headers in [answer.headers(), called.headers()] {
            let expected = if allowed { origins[0] } else { "" };
            let given = header(headers, "access-control-allow-origin");
            assert_eq!(given, expected, "{origins:?}");
            assert!(headers.get("access-control-allow-credentials").is_none());
            assert!(header(headers, "vary").contains("origin"), "{headers:?}");
            assert!(!header(headers, "x-request-id").is_empty());
            assert_eq!(header(headers, "x-content-type-options"), "nosniff");
        }
    }
}

#[tokio::test]
async fn a_page_is_told_what_it_may_send_and_reads_refusals_too() {
    let world = world(&[ALLOWED]).await;
    let answer = preflight(&world, PATH, &[ALLOWED]).await;
    let headers = answer.headers();
    let methods = header(headers, "access-control-allow-methods");
    for method in ["GET", "POST", "PATCH", "PUT", "DELETE"] {
        assert!(methods.contains(method), "{methods}");
    }
    let names = header(headers, "access-control-allow-headers").to_owned();
    for name in [
        "authorization",
        "content-type",
        "x-idempotency-key",
        "x-request-id",
        "last-event-id",
    ] {
        assert!(names.contains(name), "{names}");
    }
    assert!(!names.contains("cookie") && !names.contains('*'));
    assert_eq!(header(headers, "access-control-max-age"), "600");

    // without a token, of nothing, and of a stream
    for path in [PATH, "/api/v1/nothing", "/api/v1/allocations:watch"] {
        let request = world.http.get(world.url(path)).header("origin", ALLOWED);
        let refused = request.send().await.expect("an answer");
        assert!(refused.status().is_client_error(), "{path}");
        let headers = refused.headers();
        assert_eq!(header(headers, "access-control-allow-origin"), ALLOWED);
        let exposed = header(headers, "access-control-expose-headers");
        for name in [
            "x-request-id",
            "retry-after",
            "ratelimit",
            "ratelimit-policy",
            "deprecation",
            "sunset",
        ] {
            assert!(exposed.contains(name), "{exposed}");
        }
    }
    // where to sign in is for programs; pages, sign-in and keys of the embedded issuer are not
    for (path, allowed) in [
        ("/.well-known/gpuaas-configuration", true),
        ("/api/openapi.json", true),
        ("/", false),
        ("/reference", false),
        ("/readyz", false),
        ("/dev/authorize", false),
        ("/scim/v2/Users", false),
        ("/apiary", false),
    ] {
        let request = world.http.get(world.url(path)).header("origin", ALLOWED);
        let answer = request.send().await.expect("an answer");
        let given = header(answer.headers(), "access-control-allow-origin");
        assert_eq!(!given.is_empty(), allowed, "{path}");
        let requested = preflight(&world, path, &[ALLOWED]).await;
        let given = header(requested.headers(), "access-control-allow-origin");
        assert_eq!(!given.is_empty(), allowed, "{path}");
    }
}

#[tokio::test]
async fn without_a_list_no_page_may_call() {
    let world = world(&[]).await;
    let answer = preflight(&world, PATH, &[ALLOWED]).await;
    assert_eq!(answer.status(), 405);
    let request = world.http.get(world.url(PATH)).header("origin", ALLOWED);
    let request = request.bearer_auth(world.token("demo"));
    let called = request.send().await.expect("an answer");
    for headers in [answer.headers(), called.headers()] {
        let reported = headers
            .keys()
            .any(|name| name.as_str().starts_with("access-control-"));
        assert!(!reported, "{headers:?}");
    }
}
