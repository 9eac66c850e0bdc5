//! Every command that a page or a script shows is one that there is, by its present name and with its present options.
use std::path::{Path, PathBuf};

use clap::Command;

use crate::aliases;

/// The repository.
fn checkout() -> PathBuf {
    let cli = Path::new(env!("CARGO_MANIFEST_DIR"));
    cli.ancestors().nth(2).expect("the repository").to_owned()
}

/// All files below a folder that end so.
fn files(folder: &Path, end: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, end, found);
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
}

/// The shell's lines of a page.
fn of_page(text: &str) -> String {
    let mut in_shell = false;
    let lines = text.lines().filter(|line| {
        if line.trim_start().starts_with("```") {
            in_shell = line.trim() == "```sh";
            return false;
        }
        in_shell
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What follows the name of the program, wherever a shell would run it.
fn calls<'a>(text: &'a str, programs: &[&str]) -> Vec<&'a str> {
    let mut calls = Vec::new();
    for line in text.lines() {
        let line = line.split(" # ").next().unwrap_or_default();
        for part in line.split(['|', ';', '&', '(', '\'']) {
            let part = part.trim();
            let mut named = programs.iter();
            calls.extend(named.find_map(|program| part.strip_prefix(program)));
        }
    }
    calls
}

/// Why there is no such call.
fn fault(root: &Command, call: &str) -> Option<String> {
    let mut command = root;
    let mut is_whole = false;
    let mut words = call
        .split_whitespace()
        .map(|word| word.trim_matches(['"', '`', ')']));
    while let Some(word) = words.next() {
        if word == "--" || word.starts_with(['<', '>']) {
            return None;
        }
        // what a script puts there
        if word.starts_with('$') {
            is_whole = true;
            continue;
        }
        if let Some(option) = word.strip_prefix("--") {
            let (option, has_value) = match option.split_once('=') {
                Some((option, _)) => (option, true),
                None => (option, false),
            };
            let known = command.get_arguments().find(|one| {
                let mut aliases = one.get_all_aliases().unwrap_or_default().into_iter();
                one.get_long() == Some(option) || aliases.any(|alias| alias == option)
            });
            match known {
                None if matches!(option, "help" | "version") => {}
                None => return Some(format!("{} has no --{option}", command.get_name())),
                Some(one) if one.get_action().takes_values() && !has_value => {
                    words.next();
                }
                Some(_) => {}
            }
        } else if !is_whole && command.has_subcommands() && !word.starts_with('-') {
            match command.find_subcommand(word) {
                Some(found) if found.get_name() == word => command = found,
                Some(found) => return Some(format!("{word} is called {}", found.get_name())),
                None => return Some(format!("{} has no {word}", command.get_name())),
            }
            is_whole = !command.has_subcommands();
        }
    }
    None
}

#[test]
fn every_command_of_the_pages_and_of_the_virtual_hosts_script_is_there_by_its_name() {
    let mut root = aliases::command();
    root.build();
    let docs = checkout().join("docs");
    let mut pages = vec![checkout().join("README.md")];
    files(&docs, ".md", &mut pages);
    // it names those of before
    pages.retain(|page| !page.ends_with("docs/releases.md"));
    let mut scripts = Vec::new();
    files(
        &checkout().join("deploy/virtual-host/steps"),
        ".sh",
        &mut scripts,
    );
    let mut counts = [0, 0];
    let mut faults = Vec::new();
    for (index, paths) in [pages, scripts].into_iter().enumerate() {
        for path in paths {
            let text = std::fs::read_to_string(&path).expect("text");
            let text = text.replace("\\\n", " ");
            let (text, programs): (String, &[&str]) = match index {
                0 => (of_page(&text), &["gpuaas "]),
                _ => (text, &["cli ", "\"$gpuaas\" ", "timeout 1100 \"$gpuaas\" "]),
            };
            for call in calls(&text, programs) {
                counts[index] += 1;
                let path = path.display();
                faults.extend(fault(&root, call).map(|why| format!("{path}: {call}: {why}")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(counts[0] > 150 && counts[1] > 25, "{counts:?} found");
}

#[test]
fn a_former_name_and_an_option_of_another_command_are_found() {
    let mut root = aliases::command();
    root.build();
    for (call, expected) in [
        ("admin slot list n-1", None),
        (
            "--output json list --nothing",
            Some("list has no --nothing"),
        ),
        ("admin slots list n-1", Some("slots is called slot")),
        ("slots n-1", Some("gpuaas has no slots")),
        ("ssh web -- ls --all", None),
        ("launch --sku x --nothing", Some("launch has no --nothing")),
    ] {
        assert_eq!(fault(&root, call).as_deref(), expected, "{call}");
    }
}
