//! Tests on real VMs: `make test-host`. One program, so that what they need starts once: the whole system with its lab
//! host, and beside it a lab host on which the tests play the control plane.
use std::process::ExitCode;

mod agent;
mod broken;
mod comparison;
mod console;
mod debian;
mod dev_host;
mod dev_stack;
mod docs;
mod drift;
mod egress;
mod faults_of_launch;
mod faults_of_power;
mod hosts;
mod identity;
mod ingress;
#[path = "../kills/mod.rs"]
mod kills;
mod parity;
mod power;
mod schemathesis;
mod slice;
mod terminal;
mod trace;
mod watch;

fn main() -> ExitCode {
    let cases = [
        // the longest first: the other place is busy beside it
        debian::cases(),
        slice::cases(),
        drift::cases(),
        ingress::cases(),
        egress::cases(),
        broken::cases(),
        parity::cases(),
        power::cases(),
        faults_of_launch::cases(),
        faults_of_power::cases(),
        terminal::cases(),
        kills::cases(kills::Which::OneOfEach),
        watch::cases(),
        trace::cases(),
        docs::cases(),
        schemathesis::cases(),
        hosts::cases(),
        agent::cases(),
        comparison::cases(),
        console::cases(),
        dev_stack::cases(),
        dev_host::cases(),
    ];
    let cases = cases.into_iter().flatten().collect();
    gpuaas_tests::runner::run(cases, || {
        agent::LabHost::end();
        gpuaas_tests::system::end_second();
    })
}
