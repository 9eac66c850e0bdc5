//! The page of the API reference: served without a sign-in, from nothing but its own address.
use crate::world::World;

#[tokio::test]
async fn the_reference_needs_no_sign_in_and_no_other_host() {
    let world = World::start().await;
    for (path, kind) in [
        ("/reference", "text/html; charset=utf-8"),
        ("/reference/page.js", "text/javascript; charset=utf-8"),
        ("/reference/page.css", "text/css; charset=utf-8"),
    ] {
        let answer = world.http.get(world.url(path)).send().await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), 200, "{path}");
        let headers = answer.headers();
        assert_eq!(headers["content-type"], kind);
        let policy = headers["content-security-policy"].to_str().expect("text");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"));
        assert!(
            !policy.contains("unsafe") && !policy.contains("http"),
            "{policy}"
        );
        assert_eq!(headers["x-content-type-options"], "nosniff");
        let text = answer.text().await.expect("text");
        assert!(!text.contains("://"), "{path} names another host");
        for inline in ["innerHTML", "<style", "onclick", " style=", "eval("] {
            assert!(!text.contains(inline), "{path}: {inline}");
        }
        let posted = world.http.post(world.url(path)).send().await;
        assert_eq!(posted.expect("an answer").status(), 405, "{path}");
    }
    let document = world.http.get(world.url("/api/openapi.json")).send().await;
    assert_eq!(document.expect("the document").status(), 200);
}
