//! The kernel's arguments in GRUB's settings: what is missing is added, and everything else stays (I-66, I-81..I-83).
use super::{Action, Machine, Plan};
use crate::error::{HostError, HostResult, io_error};

const FILE: &str = "/etc/default/grub";
const DROP_INS: &str = "/etc/default/grub.d";
/// Only where another file of the folder sets the variable anew, after [`FILE`].
const OWN_DROP_IN: &str = "/etc/default/grub.d/99-gpuaas-slice.cfg";
const VARIABLE: &str = "GRUB_CMDLINE_LINUX";

/// Arguments of the IOMMU for the host's processors (I-66, I-77).
///
/// # Errors
/// The vendor is unknown.
pub fn iommu_arguments(machine: &Machine) -> HostResult<Vec<String>> {
    let text = machine
        .root
        .read("/proc/cpuinfo")
        .map_err(io_error("cannot read /proc/cpuinfo"))?;
    let vendor = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "vendor_id").then(|| value.trim())
    });
    let own = match vendor {
        Some("GenuineIntel") => "intel_iommu=on",
        Some("AuthenticAMD") => "amd_iommu=on",
        other => {
            let message = format!("the processors' vendor is {other:?}: no IOMMU policy is known");
            return Err(HostError::internal(message));
        }
    };
    Ok(vec![own.to_owned(), "iommu=pt".to_owned()])
}

/// Arguments for 1 GiB hugepages (D-54, I-72).
pub fn hugepage_arguments(pages: u32) -> Vec<String> {
    vec![
        "default_hugepagesz=1G".to_owned(),
        "hugepagesz=1G".to_owned(),
        format!("hugepages={pages}"),
    ]
}

/// Plans the edit. Says whether a restart of the host brings the arguments that the running kernel lacks: not while the
/// boot loader's menu has them not, or the host would restart again and again.
///
/// # Errors
/// A file cannot be read, or a line of it is one that nobody should edit by program.
pub fn plan(
    machine: &Machine,
    plan: &mut Plan,
    wanted: &[String],
    stamp: &str,
) -> HostResult<bool> {
    let refused = |what: String| HostError::internal(format!("{what}: edit it by hand"));
    let text = match machine.root.read(FILE) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(io_error(format_args!("cannot read {FILE}"))(error)),
    };
    let edited = with_arguments(&text, wanted).map_err(|what| refused(format!("{FILE} {what}")))?;
    let mut changed = false;
    if let Some(edited) = edited {
        let backup = machine.free_path(&format!("{FILE}.gpuaas-backup-{stamp}"));
        changed |= plan.file(
            machine,
            FILE,
            (&edited, 0o644),
            Some(backup),
            "the kernel's arguments; all others stay",
        )?;
    }
    if overridden(machine)? {
        let mut words = wanted.to_vec();
        words.extend(chosen_before(machine, wanted)?);
        let text = format!(
            "# Written by gpuaas-node-agent deploy-bootstrap: a file before this one sets {VARIABLE} anew.\n\
             {VARIABLE}=\"${VARIABLE} {}\"\n",
            words.join(" ")
        );
        changed |= plan.file(
            machine,
            OWN_DROP_IN,
            (&text, 0o644),
            None,
            "a file of grub.d sets the arguments anew",
        )?;
    }
    // an earlier run may have been broken off before this step
    let menu = machine.root.read(MENU);
    let is_stale = menu.is_ok_and(|menu| wanted.iter().any(|one| !menu.contains(one.as_str())));
    if changed || is_stale {
        plan.step(
            Action::run("update-grub", &[]),
            "the boot loader's menu from its settings",
        );
    }
    let running = machine
        .root
        .read("/proc/cmdline")
        .map_err(io_error("cannot read /proc/cmdline"))?;
    // whole words (I-219)
    let words: Vec<&str> = running.split_whitespace().collect();
    let lacks = wanted.iter().any(|one| !words.contains(&one.as_str()));
    plan.reboot_required |= changed || lacks;
    Ok(changed || lacks && !is_stale)
}

/// What the boot loader reads.
const MENU: &str = "/boot/grub/grub.cfg";

/// Hugepages that an earlier run chose in our own file, unless this one chooses some.
fn chosen_before(machine: &Machine, wanted: &[String]) -> HostResult<Vec<String>> {
    let is_page = |word: &str| {
        let key = word.split('=').next().unwrap_or(word);
        matches!(key, "default_hugepagesz" | "hugepagesz" | "hugepages")
    };
    if wanted.iter().any(|word| is_page(word)) {
        return Ok(Vec::new());
    }
    let text = machine.root.value(OWN_DROP_IN);
    let text = text.map_err(io_error(format_args!("cannot read {OWN_DROP_IN}")))?;
    let text = text.unwrap_or_default();
    let value = text.lines().rev().find_map(assignment).unwrap_or_default();
    let words = value.trim_matches('"').split_whitespace();
    Ok(words
        .filter(|word| is_page(word))
        .map(str::to_owned)
        .collect())
}

/// Whether a file of `grub.d` assigns the variable without what it had.
fn overridden(machine: &Machine) -> HostResult<bool> {
    for name in machine
        .root
        .list(DROP_INS)
        .map_err(io_error(format_args!("cannot list {DROP_INS}")))?
    {
        let path = format!("{DROP_INS}/{name}");
        if !name.ends_with(".cfg") || path == OWN_DROP_IN {
            continue;
        }
        let text = machine
            .root
            .read(&path)
            .map_err(io_error(format_args!("cannot read {path}")))?;
        let sets = |line: &str| {
            let value = assignment(line);
            value.is_some_and(|value| {
                !value.contains(&format!("${VARIABLE}"))
                    && !value.contains(&format!("${{{VARIABLE}}}"))
            })
        };
        if text.lines().any(sets) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a line assigns to the variable.
fn assignment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("export ").map_or(line, str::trim_start);
    line.strip_prefix(VARIABLE)?.strip_prefix('=')
}

/// The text with these arguments in the last assignment of the variable; `None` when it has them all. An argument with
/// the same key and another value is replaced where it stands.
fn with_arguments(text: &str, wanted: &[String]) -> Result<Option<String>, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let Some(index) = lines.iter().rposition(|line| assignment(line).is_some()) else {
        let mut edited = text.to_owned();
        if !edited.is_empty() && !edited.ends_with('\n') {
            edited.push('\n');
        }
        edited.push_str(&format!("{VARIABLE}=\"{}\"\n", wanted.join(" ")));
        return Ok(Some(edited));
    };
    let line = &lines[index];
    let assigned = assignment(line).unwrap_or_default();
    let head = &line[..line.len() - assigned.len()];
    let (quote, value, tail) =
        value_of(assigned).ok_or_else(|| format!("has a line that is not understood: {line:?}"))?;
    let edited = edit(value, wanted)?;
    if edited == value {
        return Ok(None);
    }
    lines[index] = format!("{head}{quote}{edited}{quote}{tail}");
    let mut edited = lines.join("\n");
    if text.ends_with('\n') {
        edited.push('\n');
    }
    Ok(Some(edited))
}

/// A shell word as the quote around it, what is in it, and what follows: nothing, or a comment.
fn value_of(assigned: &str) -> Option<(char, &str, &str)> {
    let is_end = |tail: &str| tail.trim().is_empty() || tail.trim_start().starts_with('#');
    // what a shell would still change in it is for a person to edit
    let is_plain = |value: &str| !value.contains(['\\', '`']) && !value.contains("$(");
    for quote in ['"', '\''] {
        if let Some(rest) = assigned.strip_prefix(quote) {
            let (value, tail) = rest.split_once(quote)?;
            return (is_end(tail) && is_plain(value)).then_some((quote, value, tail));
        }
    }
    let end = assigned.find(char::is_whitespace).unwrap_or(assigned.len());
    let (value, tail) = assigned.split_at(end);
    let is_word = !value.contains(['"', '\'', ';', '&', '|']);
    (is_word && is_end(tail) && is_plain(value)).then_some(('"', value, tail))
}

fn edit(value: &str, wanted: &[String]) -> Result<String, String> {
    let key = |word: &str| word.split('=').next().unwrap_or(word).to_owned();
    let mut edited = value.to_owned();
    for one in wanted {
        let same: Vec<String> = edited
            .split_whitespace()
            .filter(|word| key(word) == key(one))
            .map(str::to_owned)
            .collect();
        match same.as_slice() {
            [] => {
                if !edited.is_empty() && !edited.ends_with(' ') {
                    edited.push(' ');
                }
                edited.push_str(one);
            }
            [there] if there == one => {}
            // pages of several sizes are a choice of their own
            _ if key(one).contains("hugepage") => {
                return Err(format!(
                    "has {} already, and {one} was requested",
                    same.join(" ")
                ));
            }
            [there] => edited = replace_word(&edited, there, one),
            _ => return Err(format!("has several of {}", same.join(" "))),
        }
    }
    Ok(edited)
}

fn replace_word(text: &str, word: &str, by: &str) -> String {
    let is_whole = |index: &usize| {
        let (before, after) = (&text[..*index], &text[index + word.len()..]);
        (before.is_empty() || before.ends_with(char::is_whitespace))
            && (after.is_empty() || after.starts_with(char::is_whitespace))
    };
    let found = text
        .match_indices(word)
        .map(|(index, _)| index)
        .find(is_whole);
    match found {
        Some(index) => format!("{}{by}{}", &text[..index], &text[index + word.len()..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wanted() -> Vec<String> {
        vec!["intel_iommu=on".into(), "iommu=pt".into()]
    }

    #[test]
    fn i_82_i_83_every_other_argument_stays_and_a_second_edit_changes_nothing() {
        for (before, after) in [
            ("", "GRUB_CMDLINE_LINUX=\"intel_iommu=on iommu=pt\"\n"),
            (
                "GRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX=\"\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=off\"\n",
                "GRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX=\"intel_iommu=on iommu=pt\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=off\"\n",
            ),
            (
                "GRUB_CMDLINE_LINUX=\"console=ttyS0,115200n8  mitigations=auto\" # site\n",
                "GRUB_CMDLINE_LINUX=\"console=ttyS0,115200n8  mitigations=auto intel_iommu=on iommu=pt\" # site\n",
            ),
            (
                "GRUB_CMDLINE_LINUX='intel_iommu=off xiommu=soft iommu=soft a=b'",
                "GRUB_CMDLINE_LINUX='intel_iommu=on xiommu=soft iommu=pt a=b'",
            ),
            (
                "GRUB_CMDLINE_LINUX=quiet\n",
                "GRUB_CMDLINE_LINUX=\"quiet intel_iommu=on iommu=pt\"\n",
            ),
            (
                "GRUB_CMDLINE_LINUX=\"first\"\nexport GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX second\"\n",
                "GRUB_CMDLINE_LINUX=\"first\"\nexport GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX second intel_iommu=on iommu=pt\"\n",
            ),
        ] {
            assert_eq!(
                with_arguments(before, &wanted()).unwrap().as_deref(),
                Some(after)
            );
            assert_eq!(with_arguments(after, &wanted()), Ok(None), "{after}");
        }
    }

    #[test]
    fn i_83_a_line_that_a_shell_would_change_is_left_to_a_person() {
        for line in [
            "GRUB_CMDLINE_LINUX=\"a\" b",
            "GRUB_CMDLINE_LINUX=\"open",
            "GRUB_CMDLINE_LINUX=\"`id`\"",
            "GRUB_CMDLINE_LINUX=\"$(id)\"",
            "GRUB_CMDLINE_LINUX=\"a \\",
            "GRUB_CMDLINE_LINUX=a;b",
            "GRUB_CMDLINE_LINUX=\"iommu=a iommu=b\"",
        ] {
            assert!(with_arguments(line, &wanted()).is_err(), "{line}");
        }
        let pages = hugepage_arguments(512);
        let line = "GRUB_CMDLINE_LINUX=\"hugepagesz=2M hugepages=1024\"";
        assert!(with_arguments(line, &pages).is_err());
        let whole = with_arguments("GRUB_CMDLINE_LINUX=\"\"", &pages)
            .unwrap()
            .unwrap();
        assert_eq!(
            whole,
            "GRUB_CMDLINE_LINUX=\"default_hugepagesz=1G hugepagesz=1G hugepages=512\""
        );
    }

    proptest! {
        #[test]
        fn i_83_any_plain_line_keeps_its_words(words in proptest::collection::vec("[a-z.]{1,8}(=[a-z0-9,]{0,6})?", 0..8)) {
            prop_assume!(!words.iter().any(|word| word.contains("iommu")));
            let before = format!("GRUB_CMDLINE_LINUX=\"{}\"\n", words.join(" "));
            let after = with_arguments(&before, &wanted()).unwrap().unwrap();
            let (_, rest) = after.split_once('"').unwrap();
            let found: Vec<&str> = rest.trim_end().trim_end_matches('"').split_whitespace().collect();
            let mut expected: Vec<&str> = words.iter().map(String::as_str).collect();
            expected.extend(["intel_iommu=on", "iommu=pt"]);
            prop_assert_eq!(found, expected);
            prop_assert_eq!(with_arguments(&after, &wanted()), Ok(None));
        }
    }
}
