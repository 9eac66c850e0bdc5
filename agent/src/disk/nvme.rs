//! What a controller says of itself before one of its namespaces is formatted (D-75): on some a format erases every
//! namespace of the subsystem, and with it the disks of other slots.
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::error::HostResult;
use crate::host::exec;

const LIMIT: Duration = Duration::from_secs(30);
/// Bit of OACS: the command Format NVM exists.
const FORMAT_EXISTS: u32 = 1 << 1;
/// Bits of FNA: a format, or an erase by one, reaches all namespaces.
const FORMATS_ALL: u32 = 1 << 0;
const ERASES_ALL: u32 = 1 << 1;

/// What `nvme id-ctrl` reports, as far as it matters here. A field that is missing is an error, never zero.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Controller {
    /// Optional Admin Command Support.
    pub oacs: u32,
    /// Format NVM Attributes.
    pub fna: u32,
    /// Most namespaces the subsystem can have.
    pub nn: u32,
}

#[derive(Deserialize)]
struct NamespaceList {
    nsid_list: Vec<NamespaceId>,
}

#[derive(Deserialize)]
struct NamespaceId {
    nsid: u32,
}

/// Why a namespace is not formatted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFormat {
    /// The controller lacks the command.
    #[error("its controller has no command to format a namespace")]
    Unsupported,
    /// It would be no format of this namespace alone.
    #[error(
        "its controller formats all namespaces at once, and {namespaces} exist; \
         set the slot's wipe policy to blkdiscard"
    )]
    ReachesOthers {
        /// How many there are, as far as it is known.
        namespaces: String,
    },
    /// The controller does not know the namespace.
    #[error("its controller has no namespace {0}")]
    NoSuchNamespace(u32),
}

/// Whether this namespace may be formatted, a pure function. `namespaces` are those of the whole subsystem, none when they
/// could not be listed.
///
/// # Errors
/// [`NoFormat`].
pub fn check_format(
    controller: &Controller,
    namespaces: Option<&[u32]>,
    namespace: u32,
) -> Result<(), NoFormat> {
    if controller.oacs & FORMAT_EXISTS == 0 {
        return Err(NoFormat::Unsupported);
    }
    if namespaces.is_some_and(|all| !all.contains(&namespace)) {
        return Err(NoFormat::NoSuchNamespace(namespace));
    }
    if controller.fna & (FORMATS_ALL | ERASES_ALL) == 0 {
        return Ok(());
    }
    match namespaces {
        Some([_]) => Ok(()),
        None if controller.nn == 1 => Ok(()),
        Some(all) => Err(NoFormat::ReachesOthers {
            namespaces: all.len().to_string(),
        }),
        None => Err(NoFormat::ReachesOthers {
            namespaces: format!("up to {}", controller.nn),
        }),
    }
}

/// Asks the controller of a namespace.
///
/// # Errors
/// The program does not run, or answers something else.
pub async fn controller(device: &Path) -> HostResult<Controller> {
    let output = nvme("id-ctrl", &[], device)
        .await?
        .success("nvme id-ctrl")?;
    parse("nvme id-ctrl", &output.stdout)
}

/// All namespaces of the subsystem; `None` when the controller cannot list those that are not attached to it.
///
/// # Errors
/// The program does not run, or answers something else.
pub async fn namespaces(device: &Path) -> HostResult<Option<Vec<u32>>> {
    let output = nvme("list-ns", &["--all"], device).await?;
    if output.status != 0 {
        return Ok(None);
    }
    parse_namespaces(&output.stdout).map(Some)
}

async fn nvme(command: &str, flags: &[&str], device: &Path) -> HostResult<exec::Output> {
    let device = device.to_string_lossy();
    let mut arguments = vec![command, &*device, "--output-format=json"];
    arguments.extend(flags);
    exec::run("nvme", &arguments, LIMIT).await
}

pub(crate) fn parse_namespaces(text: &str) -> HostResult<Vec<u32>> {
    let list: NamespaceList = parse("nvme list-ns", text)?;
    Ok(list.nsid_list.into_iter().map(|one| one.nsid).collect())
}

fn parse<'a, T: Deserialize<'a>>(program: &str, text: &'a str) -> HostResult<T> {
    serde_json::from_str(text)
        .map_err(|error| super::wipe::failed(format!("{program} answered something else: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What nvme-cli 2.8 prints for a data-centre disk, shortened.
    const ID_CTRL: &str = r#"{"vid":4932,"ssvid":4932,"sn":"234844A10331","mn":"Micron_7450_MTFDKCB7T6TFR",
        "fr":"E2MU200","cmic":0,"mdts":6,"cntlid":0,"ver":66560,"oacs":94,"acl":3,"aerl":7,"frmw":31,
        "sanicap":3,"nn":128,"oncs":94,"fuses":0,"fna":4,"vwc":6,"psds":[{"max_power":2500}]}"#;

    fn with(oacs: u32, fna: u32, nn: u32) -> Controller {
        Controller { oacs, fna, nn }
    }

    #[test]
    fn d_75_a_controllers_own_report_is_read() {
        let controller: Controller = parse("nvme id-ctrl", ID_CTRL).unwrap();
        assert_eq!(controller, with(94, 4, 128));
        assert_eq!(check_format(&controller, Some(&[1, 2]), 1), Ok(()));
        let list = r#"{"nsid_list":[{"nsid":1},{"nsid":7}]}"#;
        assert_eq!(parse_namespaces(list).unwrap(), [1, 7]);
        // a report without the attributes proves nothing
        let without = ID_CTRL.replace("\"fna\":4,", "");
        assert!(parse::<Controller>("nvme id-ctrl", &without).is_err());
        assert!(parse_namespaces("{}").is_err());
    }

    #[test]
    fn d_75_a_format_never_reaches_another_namespace() {
        for fna in [FORMATS_ALL, ERASES_ALL, FORMATS_ALL | ERASES_ALL | 4] {
            let controller = with(FORMAT_EXISTS, fna, 128);
            let others = |namespaces: &str| {
                let namespaces = namespaces.to_owned();
                Err(NoFormat::ReachesOthers { namespaces })
            };
            assert_eq!(check_format(&controller, Some(&[1]), 1), Ok(()));
            assert_eq!(check_format(&controller, Some(&[1, 2]), 1), others("2"));
            assert_eq!(check_format(&controller, None, 1), others("up to 128"));
            let single = with(FORMAT_EXISTS, fna, 1);
            assert_eq!(check_format(&single, None, 1), Ok(()));
        }
    }

    #[test]
    fn d_75_no_format_without_the_command_or_of_what_is_not_there() {
        let all = Some(&[1, 2][..]);
        let without = with(94 & !FORMAT_EXISTS, 0, 128);
        assert_eq!(check_format(&without, all, 1), Err(NoFormat::Unsupported));
        let good = with(94, 0, 128);
        assert_eq!(
            check_format(&good, all, 3),
            Err(NoFormat::NoSuchNamespace(3))
        );
        assert_eq!(check_format(&good, None, 3), Ok(()));
    }
}
