//! A stack of its own beside others: repeatable start, restart of what changed alone, an end that leaves nothing.
//! The programs must be built: `make build`.
use std::collections::BTreeMap;
use std::sync::Mutex;

use gpuaas_dev::paths;
use gpuaas_dev::ports::ClaimedInstance;
use gpuaas_dev::process::Process;
use gpuaas_dev::stack::{Options, Stack};
use gpuaas_tests::runner::{Case, Place};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::Host;
        a_stack_starts_once_restarts_what_changed_and_ends_whole: 8,
    ]
}

/// Ends the stack also when the test fails.
struct Down(Stack);

impl Drop for Down {
    fn drop(&mut self) {
        let _reported_by_the_test = self.0.down().and_then(|()| self.0.purge());
    }
}

/// Brings it up and returns what was told.
async fn up(stack: &Stack) -> Vec<String> {
    let reported = Mutex::new(Vec::new());
    stack
        .up(&|line: &str| reported.lock().unwrap().push(line.to_owned()))
        .await
        .unwrap();
    reported.into_inner().unwrap()
}

async fn processes(stack: &Stack) -> BTreeMap<String, Process> {
    let rows = stack.status().await.unwrap();
    rows.into_iter()
        .map(|row| {
            assert_eq!(row.health, "ok", "{}", row.part);
            (row.part, row.process.unwrap())
        })
        .collect()
}

async fn a_stack_starts_once_restarts_what_changed_and_ends_whole() {
    let claimed = ClaimedInstance::claim().unwrap();
    let root = paths::run_dir().join(format!("test/stack-{}", claimed.instance().number()));
    let options = Options {
        lab: false,
        ..Options::beside(root.clone(), claimed.instance())
    };
    let stack = Down(Stack::new(options.clone()).unwrap());
    stack.0.down().unwrap();

    up(&stack.0).await;
    let first = processes(&stack.0).await;
    assert_eq!(first.len(), 11);

    assert_eq!(
        up(&stack.0).await,
        Vec::<String>::new(),
        "a second start changes nothing"
    );
    assert_eq!(processes(&stack.0).await, first);

    // one part crashes: it alone comes back
    first["billing"].stop(
        nix::sys::signal::Signal::SIGKILL,
        std::time::Duration::from_secs(5),
    );
    assert_eq!(up(&stack.0).await, ["billing started"]);
    let second = processes(&stack.0).await;
    assert_eq!(changed(&first, &second), ["billing"]);

    // one part gets another setting: it alone is restarted
    let settings = BTreeMap::from([(
        "scheduler".to_owned(),
        vec!["telemetry.log=debug".to_owned()],
    )]);
    let other = Stack::new(Options {
        settings,
        ..options
    })
    .unwrap();
    assert_eq!(
        up(&other).await,
        ["scheduler restarted: its program or settings changed"]
    );
    let third = processes(&other).await;
    assert_eq!(changed(&second, &third), ["scheduler"]);

    stack.0.down().unwrap();
    assert!(third.values().all(|process| !process.alive()));
    stack.0.purge().unwrap();
    drop(stack);
    std::fs::remove_dir_all(root).unwrap();
}

fn changed(before: &BTreeMap<String, Process>, after: &BTreeMap<String, Process>) -> Vec<String> {
    let differs = |name: &&String| before[*name] != after[*name];
    before.keys().filter(differs).cloned().collect()
}
