//! Time that is not charged, in what shows the cost.
use serde_json::json;

use super::one;
use crate::support::{ID, World, allocation};

/// The host was lost for a quarter of an hour of one hour, which the policy credits.
#[test]
fn usage_and_show_say_what_is_credited_so_that_lines_add_up() {
    let world = World::new();
    let money = json!({ "currency_code": "EUR", "units": "1", "nanos": 500_000_000 });
    let hourly = json!({ "currency_code": "EUR", "units": "2", "nanos": 0 });
    let line = json!({ "allocation_id": ID, "sku": "lab-slice", "gpu_count": 1, "start_time": "2026-01-31T12:01:00Z",
        "microseconds": "3600000000", "credited_microseconds": "900000000", "price_per_gpu_hour": hourly, "amount": money });
    let total = json!({ "gpu_microseconds": "3600000000", "credited_gpu_microseconds": "900000000", "amount": money });
    let usage = json!({ "intervals": [line], "totals": [total], "next_page_token": "" });
    world.get("/api/v1/usage", usage);
    let ran = world.run(&["usage"]).ok();
    assert!(
        ran.out
            .contains("1h 00m 00s  15m 00s   2.00 EUR      1.50 EUR"),
        "{}",
        ran.out
    );
    assert!(
        ran.out
            .ends_with("Total: 1.50 EUR for 1h 00m 00s of GPU time, 15m 00s of it credited\n"),
        "{}",
        ran.out
    );
    world.get(&one(), allocation("active"));
    world.get(&format!("{}/timeline", one()), json!({ "entries": [] }));
    let shown = world.run(&["show", ID]).ok();
    let cost = "Cost         1.50 EUR so far, for 1h 00m 00s of GPU time, 15m 00s of it credited";
    assert!(shown.out.contains(cost), "{}", shown.out);
}
