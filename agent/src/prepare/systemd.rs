//! Units as systemd has them.
use jiff::Timestamp;

use super::{Machine, Plan};
use crate::error::HostResult;

/// A unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    pub is_there: bool,
    pub is_active: bool,
    /// It comes with the next start of the host.
    pub is_enabled: bool,
    /// It has no installation part: what starts it is another unit or a rule of udev, and `disable` changes nothing.
    pub is_static: bool,
    /// Its file is another one than systemd has read.
    pub needs_reload: bool,
}

/// Asks for a unit.
///
/// # Errors
/// There is no systemd here, or it does not answer.
pub async fn unit(machine: &Machine, name: &str) -> HostResult<Unit> {
    let property = "--property=LoadState,ActiveState,UnitFileState,NeedDaemonReload";
    let output = machine.ask("systemctl", &["show", property, name]).await?;
    Ok(parse(&output.success("systemctl")?.stdout))
}

pub(crate) fn parse(text: &str) -> Unit {
    let value = |name: &str| {
        let mut lines = text.lines();
        lines
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .unwrap_or_default()
    };
    let is_there = !matches!(value("LoadState"), "" | "not-found");
    Unit {
        is_there,
        is_active: is_there && value("ActiveState") == "active",
        is_enabled: matches!(
            value("UnitFileState"),
            "enabled" | "enabled-runtime" | "static" | "alias" | "generated" | "indirect"
        ),
        is_static: value("UnitFileState") == "static",
        needs_reload: value("NeedDaemonReload") == "yes",
    }
}

/// Whether a unit that is active began before a file was written: it runs with what the file had then. Not where systemd or
/// the file does not tell.
pub async fn began_before(machine: &Machine, name: &str, file: &str) -> bool {
    let written = std::fs::metadata(machine.root.path(file)).and_then(|data| data.modified());
    let written = written.ok().and_then(|at| Timestamp::try_from(at).ok());
    let property = "--property=InactiveExitTimestamp";
    let arguments = ["show", "--timestamp=us+utc", property, name];
    let shown = machine.ask("systemctl", &arguments).await;
    let began = shown.ok().and_then(|shown| began(&shown.stdout));
    // systemd has no more of a second than microseconds
    began
        .zip(written)
        .is_some_and(|(began, written)| began.as_microsecond() < written.as_microsecond())
}

/// When a unit's start began, as "Mon 2026-11-23 19:38:48.123456 UTC".
fn began(text: &str) -> Option<Timestamp> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("InactiveExitTimestamp="))?;
    let mut words = value.split_whitespace().skip(1);
    let (date, time, zone) = (words.next()?, words.next()?, words.next()?);
    (zone == "UTC").then(|| format!("{date}T{time}Z").parse().ok())?
}

/// Enables and starts a unit that is not. One that systemd does not know yet comes with a package of the same plan.
///
/// # Errors
/// As [`unit`].
pub async fn enable_now(
    machine: &Machine,
    plan: &mut Plan,
    name: &str,
    reason: &str,
) -> HostResult<()> {
    let found = unit(machine, name).await?;
    if !(found.is_active && found.is_enabled) {
        plan.run("systemctl", &["enable", "--now", name], reason);
    }
    Ok(())
}

/// The lines `unit=active` or `unit=NOT_ACTIVE` (A-153, I-221).
// partly I-221: the fourth unit is called `gpuaas-slice-network-baseline` (CON-01)
pub async fn states(machine: &Machine, names: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for name in names {
        let is_active = unit(machine, name).await.is_ok_and(|unit| unit.is_active);
        let state = if is_active { "active" } else { "NOT_ACTIVE" };
        found.push(((*name).to_owned(), state.to_owned()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_what_systemd_says_of_it() {
        let good = parse("LoadState=loaded\nActiveState=active\nUnitFileState=enabled\n");
        assert!(good.is_there && good.is_active && good.is_enabled);
        let stopped = parse("LoadState=loaded\nActiveState=inactive\nUnitFileState=disabled\n");
        assert!(stopped.is_there && !stopped.is_active && !stopped.is_enabled);
        assert!(!parse("LoadState=not-found\nActiveState=inactive\nUnitFileState=\n").is_there);
        assert!(!parse("").is_there);
        let by_udev = parse("LoadState=loaded\nActiveState=active\nUnitFileState=static\n");
        assert!(by_udev.is_enabled && by_udev.is_static && !good.is_static);
        let masked = parse("LoadState=masked\nActiveState=inactive\nUnitFileState=masked\n");
        assert!(masked.is_there && !masked.is_enabled && !masked.is_static);
        assert!(!good.needs_reload);
        assert!(parse("LoadState=loaded\nNeedDaemonReload=yes\n").needs_reload);
    }

    #[test]
    fn the_start_of_a_unit_is_read_to_the_microsecond() {
        let at = began("InactiveExitTimestamp=Mon 2026-11-23 19:38:48.123456 UTC\n");
        assert_eq!(at, "2026-11-23T19:38:48.123456Z".parse().ok());
        for unknown in [
            "InactiveExitTimestamp=\n",
            "InactiveExitTimestamp=n/a\n",
            "",
        ] {
            assert_eq!(began(unknown), None, "{unknown}");
        }
    }
}
