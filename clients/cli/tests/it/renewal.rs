//! Tokens that end while the identity provider does not work.
use serde_json::{Value, json};

use crate::sign_in::{contexts, granted, provider, run, used};
use crate::support::World;

const TOKEN: &str = "/token";

/// A provider that gives a token of so many seconds and does not work afterwards.
fn signed_in(seconds: i64, broken: (u16, Value)) -> World {
    let world = provider([(200, granted("old", "first", seconds))]);
    run(&world, &["login", "--api", &world.url()]).ok();
    world.on("POST", TOKEN, [broken]);
    world
}

/// The refresh token that is kept.
fn kept(world: &World) -> Value {
    let contexts = contexts(world);
    let name = contexts["current"].as_str().expect("a name");
    contexts["contexts"][name]["tokens"]["refresh_token"].clone()
}

#[test]
fn a_token_that_is_valid_is_used_while_the_provider_does_not_work() {
    let unavailable = json!({ "error": "temporarily_unavailable" });
    for broken in [
        (500, json!({})),
        (429, json!({})),
        (400, unavailable.clone()),
        (503, unavailable),
    ] {
        let world = signed_in(50, broken);
        let ran = run(&world, &["sku", "list"]).ok();
        assert_eq!(ran.err, "");
        assert_eq!(used(&world), ["Bearer old"]);
        assert_eq!(kept(&world), "first");
        world.on("POST", TOKEN, [(200, granted("new", "second", 3600))]);
        run(&world, &["sku", "list"]).ok();
        assert_eq!(used(&world), ["Bearer old", "Bearer new"]);
        assert_eq!(kept(&world), "second");
    }
    // a refusal is no answer for later
    let world = signed_in(50, (400, json!({ "error": "invalid_grant" })));
    assert_eq!(run(&world, &["sku", "list"]).code, 4);
    assert!(used(&world).is_empty());
}

#[test]
fn without_a_valid_token_a_provider_that_does_not_work_is_unavailable() {
    let world = signed_in(0, (503, json!({})));
    let ran = run(&world, &["sku", "list"]);
    assert_eq!((ran.code, ran.out.as_str()), (5, ""), "{ran:?}");
    for reported in [
        "error: the identity provider at ",
        "is not available: it answered with status 503",
        "Try again in a moment.",
    ] {
        assert!(ran.err.contains(reported), "{reported}: {ran:?}");
    }
    assert!(!ran.err.contains("gpuaas login"), "{ran:?}");
    assert!(used(&world).is_empty());
    assert_eq!(kept(&world), "first");
    // one that is away for a moment is asked again
    let back = (200, granted("new", "second", 3600));
    world.on("POST", TOKEN, [(503, json!({})), back]);
    run(&world, &["sku", "list"]).ok();
    assert_eq!(used(&world), ["Bearer new"]);
}

#[test]
fn a_provider_that_cannot_be_reached_is_unavailable_unless_the_token_is_valid() {
    for (seconds, code) in [(50, 0), (0, 5)] {
        let world = signed_in(seconds, (404, json!({})));
        let file = world.path(".config/gpuaas/contexts.json");
        let text = contexts(&world).to_string();
        // nobody listens there
        let moved = text.replace(
            &format!("{}{TOKEN}", world.url()),
            "http://127.0.0.1:1/token",
        );
        assert_ne!(text, moved);
        std::fs::write(&file, moved).expect("write");
        let ran = run(&world, &["sku", "list"]);
        assert_eq!(ran.code, code, "{ran:?}");
        let is_reported = ran
            .err
            .contains("the identity provider at http://127.0.0.1:1/token is not available: ");
        assert_eq!(is_reported, code == 5, "{ran:?}");
    }
}
