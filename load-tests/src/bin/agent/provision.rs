//! The agent's part of one launch, from its image to a login, next to the same VM made by a plain script on the same
//! host in the same run. The agent's times are those of its journal: what the services add is measured by `first_login`.
use anyhow::Context as _;
use gpuaas_agent::ids::AllocationId;
use gpuaas_agent::journal::{Journal, OperationRow};
use gpuaas_load_tests::measure::median;
use gpuaas_load_tests::plain::PlainVm;
use gpuaas_load_tests::slice::Slice;
use gpuaas_load_tests::system::System;

const ROUNDS: usize = 5;
/// The step with which the script ends, too. What follows has no peer: the checks of the image, and the seed's removal.
const LOGIN: &str = "wait_login";

/// A step of the provision, and how long it took in each round, in milliseconds.
type Step = (String, Vec<f64>);

/// Prints the tables.
///
/// # Errors
/// The script or a launch fails; the journal cannot be read.
pub async fn measure(system: &System<'_>) -> anyhow::Result<()> {
    let plain_vm = PlainVm::new(system)?;
    let (mut plain, mut agent) = (Vec::new(), Vec::new());
    let mut steps: Vec<Step> = Vec::new();
    for round in 0..=ROUNDS {
        // alternating, so that a slow minute of the machine hits both
        let by_hand = plain_vm.launch()?;
        let provision = provision(system).await?;
        let by_agent = until_login(&provision)?;
        eprintln!("round {round}: plain {by_hand:.2} s, agent {by_agent:.2} s");
        // the first one finds nothing of the image in memory
        if round == 0 {
            continue;
        }
        plain.push(by_hand);
        agent.push(by_agent);
        add(&mut steps, &provision)?;
    }
    let (plain, agent) = (median(plain), median(agent));
    println!("\n| from image to login | median of {ROUNDS}, s | ratio |\n|---|---|---|");
    println!("| plain script | {plain:.2} | 1.00 |");
    println!(
        "| the agent's provision | {agent:.2} | {:.2} |",
        agent / plain
    );
    println!("\n| step of the provision | median of {ROUNDS}, ms |\n|---|---|");
    for (name, times) in steps {
        println!("| {name} | {:.0} |", median(times));
    }
    Ok(())
}

/// Launches a slice and releases it again; what the agent's journal says of its provision.
async fn provision(system: &System<'_>) -> anyhow::Result<OperationRow> {
    let slice = Slice::launch(system).await?;
    let allocation: AllocationId = slice.id.parse()?;
    let file = system.stack.lab().agent_folder().join("journal.sqlite");
    let provision = Journal::read(&file)?.launched(allocation)?;
    slice.release().await?;
    provision.context("the journal has no provision of the slice")
}

/// Seconds from its beginning to the login.
fn until_login(provision: &OperationRow) -> anyhow::Result<f64> {
    let login = provision.steps.iter().find(|step| step.name == LOGIN);
    let ended = login.and_then(|step| step.ended_ms);
    let ended = ended.context("the provision has no login")?;
    Ok((ended - provision.started_ms) as f64 / 1000.0)
}

/// Adds the time of each step up to the login.
fn add(steps: &mut Vec<Step>, provision: &OperationRow) -> anyhow::Result<()> {
    for (place, step) in provision.steps.iter().enumerate() {
        let (Some(started), Some(ended)) = (step.started_ms, step.ended_ms) else {
            anyhow::bail!("step {} has no time", step.name);
        };
        if steps.len() == place {
            steps.push((step.name.clone(), Vec::new()));
        }
        steps[place].1.push((ended - started) as f64);
        if step.name == LOGIN {
            break;
        }
    }
    Ok(())
}
