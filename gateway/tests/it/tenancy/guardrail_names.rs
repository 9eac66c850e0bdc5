//! Which regions and SKUs an organisation's guardrails may name.
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::organisation_guardrails::start;
use crate::world::{answer, detail, field, reason};

/// What somebody mistypes is refused, where it would forbid everything; what was allowed and is deleted since is left in peace.
#[tokio::test]
async fn guardrails_name_regions_and_skus_that_there_are() {
    let (world, guardrails) = start().await;
    let patch = async |who: &str, regions: &[&str], skus: &[&str]| {
        let body =
            json!({ "allowed_regions": { "names": regions }, "allowed_skus": { "names": skus } });
        world.send(who, Method::PATCH, &guardrails, body).await
    };
    for (who, regions, skus, of, rule) in [
        (
            "olga",
            &["eu-1", "eu-3"][..],
            &["small"][..],
            "allowed_regions.names[1]",
            "there is no region eu-3; there are: eu-1, eu-2, us-1",
        ),
        (
            "olga",
            &["us-1"],
            &["smal"],
            "allowed_skus.names[0]",
            "there is no SKU smal; there are: large, small",
        ),
        // it sees no such one
        (
            "olga",
            &[],
            &["unpriced"],
            "allowed_skus.names[0]",
            "there is no SKU unpriced; there are: large, small",
        ),
        (
            "admin",
            &[],
            &["smal"],
            "allowed_skus.names[0]",
            "there is no SKU smal; there are: large, small, unpriced",
        ),
    ] {
        let (status, refused) = patch(who, regions, skus).await;
        assert_eq!(
            (status, reason(&refused)),
            (400, "FIELD_INVALID"),
            "{refused}"
        );
        assert_eq!(field(&refused), of, "{refused}");
        let violation = &detail(&refused, "BadRequest")["field_violations"][0];
        assert_eq!(violation["description"], rule, "{refused}");
    }
    assert_eq!(world.recorded("organisation_guardrails.update").await, 0);
    // who may not change them learns nothing of what there is
    let (status, refused) = patch("vera", &[], &["smal"]).await;
    assert_eq!(status, 403, "{refused}");
    let (status, set) = patch("admin", &["eu-2"], &["unpriced"]).await;
    assert_eq!(status, 200, "{set}");

    let owner = world.db.owner_pool().await;
    sqlx::query("UPDATE edge.organisation_guardrails SET allowed_skus = '{deleted,small}', allowed_regions = '{eu-0}'")
        .execute(&owner)
        .await
        .expect("of a SKU and a region that are gone");
    let (status, set) = world.get("olga", &guardrails).await;
    assert_eq!(status, 200, "{set}");
    assert_eq!(set["allowed_skus"], json!(["deleted", "small"]), "{set}");
    let (status, set) = patch("olga", &["eu-0", "eu-1"], &["deleted"]).await;
    assert_eq!(status, 200, "{set}");
    assert_eq!(set["allowed_regions"], json!(["eu-0", "eu-1"]), "{set}");
    let (status, refused) = patch("olga", &[], &["small", "gone"]).await;
    assert_eq!(
        (status, field(&refused)),
        (400, "allowed_skus.names[1]"),
        "{refused}"
    );

    // without an answer nothing is changed, and other guardrails are
    let (_another, base) = world.another_gateway_without("inventory");
    world.until_answers(&base).await;
    for (body, expected) in [
        (json!({ "allowed_regions": { "names": ["us-1"] } }), 503),
        (json!({ "terminals_disabled": true }), 200),
        (json!({ "allowed_regions": { "names": ["eu-1"] } }), 200),
    ] {
        let request = world.http.patch(format!("{base}{guardrails}"));
        let request = request.bearer_auth(world.token("olga")).json(&body);
        let request = request.header("x-idempotency-key", Uuid::now_v7().to_string());
        let (status, answered) = answer(request.send().await.expect("answer")).await;
        assert_eq!(status, expected, "{body}: {answered}");
    }
}

/// Who did not hear the answer repeats the call, and gets it also when what was allowed is deleted meanwhile.
#[tokio::test]
async fn a_repeat_of_a_change_is_not_held_to_the_regions_and_skus_there_are_by_then() {
    let (world, guardrails) = start().await;
    let change =
        json!({ "allowed_regions": { "names": ["eu-2"] }, "allowed_skus": { "names": ["large"] } });
    let patch = async |body: &Value, key: &str| {
        world
            .send_as("olga", Method::PATCH, &guardrails, body.clone(), key)
            .await
    };
    let (status, set) = patch(&change, "first").await;
    assert_eq!((status, &set["etag"]), (200, &json!("1")), "{set}");
    let (status, other) = patch(
        &json!({ "allowed_regions": {}, "allowed_skus": {} }),
        "second",
    )
    .await;
    assert_eq!((status, &other["etag"]), (200, &json!("2")), "{other}");
    world.catalogue.delete("eu-2");
    world.catalogue.delete("large");

    let (status, now) = patch(&change, "first").await;
    assert_eq!((status, &now), (200, &other), "as they are now");
    assert_eq!(world.recorded("organisation_guardrails.update").await, 2);
    // under another key it is another change, and another change is not made under this one
    let (status, refused) = patch(&change, "third").await;
    assert_eq!(
        (status, field(&refused)),
        (400, "allowed_regions.names[0]"),
        "{refused}"
    );
    let another = json!({ "allowed_regions": { "names": ["eu-1"] } });
    let (status, refused) = patch(&another, "first").await;
    assert_eq!(
        (status, reason(&refused)),
        (409, "IDEMPOTENCY_KEY_REUSED"),
        "{refused}"
    );
}
