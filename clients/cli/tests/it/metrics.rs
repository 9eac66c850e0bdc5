//! `gpuaas metrics`: what a VM uses, as a table and as the API answered.
use serde_json::{Value, json};

use crate::support::{ID, World, error};

fn answer() -> Value {
    let point = |minute: u32, value: f64| json!({ "time": format!("2026-01-31T12:{minute:02}:00Z"), "value": value });
    json!({
        "allocation_id": ID,
        "step_seconds": 60,
        "series": [
            { "metric": "cpu_percent", "points": [point(0, 10.0), point(1, 30.0)] },
            { "metric": "memory_used_bytes", "points": [point(0, 1_610_612_736.0)] },
            { "metric": "gpu_utilization_percent", "gpu": 0, "points": [point(1, 97.0)] },
        ],
        "guest_state": "complete",
    })
}

/// A world that answers any time with this.
fn world(status: u16, answer: &Value) -> World {
    let world = World::new();
    world.on(
        "GET",
        &format!("/api/v1/allocations/{ID}/metrics"),
        [(status, answer.clone())],
    );
    world
}

#[test]
fn d_90_the_metrics_of_a_vm_are_a_table_and_the_answer_itself_for_programs() {
    let ran = world(200, &answer()).run(&["metrics", ID]).ok();
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("METRIC"), "{ran:?}");
    let cells = |line: &str| {
        line.split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .take(4)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(cells(lines[1]), ["CPU", "30.0 %", "20.0 %", "30.0 %"]);
    assert_eq!(cells(lines[2])[0], "Memory used");
    assert_eq!(cells(lines[3])[..2], ["GPU 0 utilization", "97.0 %"]);
    assert_eq!(ran.err, "");

    let ran = world(200, &answer())
        .run(&["metrics", ID, "--output", "json"])
        .ok();
    assert_eq!(
        serde_json::from_str::<Value>(&ran.out).expect("json"),
        answer()
    );
}

#[test]
fn d_90_what_is_missing_and_why_is_told() {
    let mut none = answer();
    none["series"] = json!([]);
    none["guest_message"] = json!("No GPU metrics: nvidia-smi is not installed in the VM.");
    let ran = world(200, &none).run(&["metrics", ID]).ok();
    assert!(ran.out.starts_with("Nothing was measured"), "{ran:?}");
    assert!(ran.err.contains("nvidia-smi is not installed"), "{ran:?}");
    let refused = error(
        400,
        "METRICS_UNAVAILABLE",
        "The allocation is not active.",
        &[],
    );
    let ran = world(400, &refused).run(&["metrics", ID]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{ran:?}");
}

#[test]
fn d_90_the_time_is_how_far_back() {
    let world = world(200, &answer());
    for (since, seconds) in [("15m", 900), ("1d", 86_400)] {
        world.run(&["metrics", ID, "--since", since]).ok();
        let seen = world.seen().pop().expect("a request");
        let (_, time) = seen.target.split_once("?start_time=").expect("a time");
        let time: jiff::Timestamp = time.replace("%3A", ":").parse().expect("a time");
        let ago = jiff::Timestamp::now().as_second() - time.as_second();
        assert!((seconds..seconds + 60).contains(&ago), "{since}: {ago}");
    }
    for wrong in ["-5m", "0s", "soon"] {
        let arguments = ["metrics", ID, &format!("--since={wrong}")];
        assert_eq!(world.run(&arguments).code, 2, "{wrong:?}");
    }
}
