//! Runs the examples of the documentation against the running system, as they stand: a page cannot promise a
//! command that does something else.
use std::process::Command;

use gpuaas_dev::stack::SERVICES;
use gpuaas_docs::examples;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::System;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        the_readme_does_what_it_says: 15,
        the_tutorial_does_what_it_says: 44,
        the_integrators_guide_does_what_it_says: 9,
        the_sdks_do_what_their_quick_starts_say: 65,
        the_terraform_module_does_what_its_page_says: 30,
        the_grpc_examples_do_what_they_say: 2,
    ]
}

/// The page as it reads for this stack: its folder, its API, its services.
fn here(system: &System, page: &str) -> String {
    let root = system.stack.options().root.display().to_string();
    let instance = system.stack.options().instance;
    let mut text = page
        .replace("$PWD/.run/", ".run/")
        .replace(".run/", &format!("{root}/"))
        .replace("http://127.0.0.1:7080", &system.stack.api_url());
    for (kind, documented) in SERVICES.into_iter().zip(7101_u16..) {
        let port = kind.address(instance, 1).port();
        text = text.replace(
            &format!("localhost:{documented}"),
            &format!("localhost:{port}"),
        );
    }
    text
}

async fn try_page(path: &str) {
    let system = System::get().await;
    let checkout = gpuaas_dev::paths::checkout();
    let page = std::fs::read_to_string(checkout.join(path)).expect("the page");
    let examples = examples::parse(path, &here(&system, &page)).expect("well-formed examples");
    assert!(!examples.is_empty(), "{path} has no examples");
    let ran = Command::new("bash")
        .arg("-c")
        .arg(examples::script(&examples))
        .current_dir(&checkout)
        .output()
        .expect("bash starts");
    let (output, errors) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    let missing = examples::missing(&examples, &output);
    assert!(
        ran.status.success() && missing.is_empty(),
        "{path}: {missing:#?}\n{output}\n{errors}"
    );
    system.assert_nothing_left().await;
}

async fn the_readme_does_what_it_says() {
    try_page("README.md").await;
}

async fn the_tutorial_does_what_it_says() {
    try_page("docs/tutorial.md").await;
}

async fn the_integrators_guide_does_what_it_says() {
    try_page("docs/how-to/integrator.md").await;
}

async fn the_sdks_do_what_their_quick_starts_say() {
    try_page("docs/how-to/sdk.md").await;
}

async fn the_terraform_module_does_what_its_page_says() {
    try_page("docs/how-to/terraform.md").await;
}

async fn the_grpc_examples_do_what_they_say() {
    try_page("docs/reference/grpc-examples.md").await;
}
