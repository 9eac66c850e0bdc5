//! Units of systemd.
use super::exec;
use crate::error::HostResult;

/// State of a unit as "active/running"; `None` where systemd has no such unit.
///
/// # Errors
/// There is no systemd here, or it does not answer.
pub async fn state(unit: &str) -> HostResult<Option<String>> {
    let arguments = ["show", "--property=LoadState,ActiveState,SubState", unit];
    let output = exec::run("systemctl", &arguments, exec::PROBE_LIMIT).await?;
    Ok(parse(&output.success("systemctl")?.stdout))
}

pub(crate) fn parse(text: &str) -> Option<String> {
    let value = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    };
    if value("LoadState")? == "not-found" {
        return None;
    }
    Some(format!("{}/{}", value("ActiveState")?, value("SubState")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_systemd_does_not_have_has_no_state() {
        let text = "LoadState=loaded\nActiveState=active\nSubState=running\n";
        assert_eq!(parse(text).as_deref(), Some("active/running"));
        let text = "LoadState=not-found\nActiveState=inactive\nSubState=dead\n";
        assert_eq!(parse(text), None);
        assert_eq!(parse(""), None);
    }
}
