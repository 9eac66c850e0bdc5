//! Which audit rows have digests of what they change: all, but for those of a few actions, each for a reason.
use serde_json::Value;

/// Where the detail of a row has the digest of what was there before the change.
pub const BEFORE_DIGEST: &str = "before_digest";
/// Where it has the digest of what is there after it.
pub const AFTER_DIGEST: &str = "after_digest";
/// Where it says which other schema has the row with the digests.
pub(super) const DIGESTS_IN: &str = "digests_in";

/// Actions whose rows have none, each with the reason.
const WITHOUT: &[(&str, &str)] = &[("serial_log.read", "reads, and changes nothing")];

/// Whether a row lacks a digest that it has to have. What is made has one of what it is now; everything else has one of what was
/// there, or of what is there, or both. A refusal has changed nothing.
pub(super) fn lacks_digests(action: &str, detail: &Value) -> bool {
    let has = |name| detail.get(name).is_some();
    if WITHOUT.iter().any(|(without, _)| *without == action)
        || detail
            .get("outcome")
            .is_some_and(|outcome| outcome == "denied")
    {
        return has(BEFORE_DIGEST) || has(AFTER_DIGEST);
    }
    if action.ends_with(".create") {
        return has(BEFORE_DIGEST) || !has(AFTER_DIGEST);
    }
    !(has(BEFORE_DIGEST) || has(AFTER_DIGEST) || has(DIGESTS_IN))
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::inventory::v1::Region;
    use serde_json::json;

    use super::*;
    use crate::audit::{with_digests, with_digests_elsewhere};

    #[test]
    fn p10_a_change_without_its_digests_is_found() {
        let region = Region::default();
        let with = |before, after| with_digests(json!({}), before, after);
        for (action, detail, lacks) in [
            ("webhook.update", json!({}), true),
            ("of.nobody", json!({}), true),
            ("webhook.update", with(Some(&region), Some(&region)), false),
            ("webhook.delete", with(Some(&region), None), false),
            ("webhook.create", json!({}), true),
            ("webhook.create", with(None, Some(&region)), false),
            ("webhook.create", with(Some(&region), Some(&region)), true),
            ("webhook.update", json!({ "outcome": "denied" }), false),
            ("serial_log.read", json!({}), false),
            ("serial_log.read", with(None, Some(&region)), true),
            ("slot.disable", json!({}), true),
            (
                "slot.disable",
                with_digests_elsewhere(json!({}), "placement"),
                false,
            ),
        ] {
            assert_eq!(lacks_digests(action, &detail), lacks, "{action} {detail}");
        }
    }
}
