//! What a controller says of itself before one of its namespaces is erased (D-75): a sanitize erases every namespace of the
//! subsystem, on some a format does so too, and with it the disks of other slots.
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::error::{HostError, HostResult};
use crate::host::exec;
use crate::host::output::Output;

const LIMIT: Duration = Duration::from_secs(30);
/// Bit of OACS: the command Format NVM exists.
const FORMAT_EXISTS: u32 = 1 << 1;
/// Bits of FNA: a format, or an erase by one, reaches all namespaces.
const FORMATS_ALL: u32 = 1 << 0;
const ERASES_ALL: u32 = 1 << 1;
/// Bit of FNA: a format can erase by change of the encryption key.
const FORMAT_CRYPTO: u32 = 1 << 2;
/// Bits of SANICAP.
const SANITIZE_CRYPTO: u32 = 1 << 0;
const SANITIZE_BLOCK: u32 = 1 << 1;

/// What `nvme id-ctrl` reports, as far as it matters here. A field that is missing is an error, never zero.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Controller {
    /// Optional Admin Command Support.
    pub oacs: u32,
    /// Format NVM Attributes.
    pub fna: u32,
    /// Most namespaces the subsystem can have.
    pub nn: u32,
    /// Sanitize Capabilities; a controller of before NVMe 1.3 has none to report.
    #[serde(default)]
    pub sanicap: u32,
}

impl Controller {
    /// Sanitize by change of the media's encryption keys.
    pub fn sanitizes_by_crypto(&self) -> bool {
        self.sanicap & SANITIZE_CRYPTO != 0
    }

    /// Sanitize by erase of the media's blocks.
    pub fn sanitizes_blocks(&self) -> bool {
        self.sanicap & SANITIZE_BLOCK != 0
    }

    /// A format can change the encryption key of what it reaches.
    pub fn formats_by_crypto(&self) -> bool {
        self.fna & FORMAT_CRYPTO != 0
    }
}

/// What `nvme id-ns` reports, as far as it matters here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Namespace {
    /// Deallocate Logical Block Features; not reported: nothing is promised of what a block without content reads as.
    #[serde(default)]
    pub dlfeat: u32,
    /// Which of its formats it has, in the low bits.
    #[serde(default)]
    pub flbas: u32,
    /// Kind of protection information; 0: none.
    #[serde(default)]
    pub dps: u32,
    #[serde(default)]
    pub lbafs: Vec<Format>,
}

/// A format of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Format {
    /// Bytes of metadata for each block.
    #[serde(default)]
    pub ms: u32,
}

impl Namespace {
    /// Its blocks have metadata or protection information beside their data.
    pub fn has_metadata(&self) -> bool {
        // bits 5 and 6 are the upper ones of the number
        let number = (self.flbas & 0xf) | (self.flbas >> 5 & 0b11) << 4;
        let format = self.lbafs.get(number as usize);
        self.dps & 0b111 != 0 || format.is_some_and(|format| format.ms != 0)
    }

    /// A deallocated block reads as zero.
    pub fn deallocates_to_zero(&self) -> bool {
        self.dlfeat & 0b111 == 1
    }
}

/// What the sanitize log says of the subsystem's last sanitize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SanitizeLog {
    /// How it stands.
    pub state: SanitizeState,
    /// Parts of 65536 that are done, while it runs.
    pub progress: u32,
    /// Nothing was written to the subsystem since a sanitize that succeeded.
    pub global_erased: bool,
}

/// State of the last sanitize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SanitizeState {
    /// There was none.
    Never,
    /// It succeeded.
    Completed,
    /// It runs.
    Running,
    /// It failed.
    Failed,
}

#[derive(Deserialize)]
struct SanitizeReport {
    sprog: u32,
    sstat: std::collections::BTreeMap<String, serde_json::Value>,
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

/// Whether what reaches all namespaces of the subsystem reaches this one alone, a pure function. `namespaces` as in
/// [`check_format`].
pub fn is_alone(controller: &Controller, namespaces: Option<&[u32]>, namespace: u32) -> bool {
    match namespaces {
        Some(all) => all == [namespace],
        None => controller.nn == 1,
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
    parse_controller(&output.stdout)
}

pub(crate) fn parse_controller(text: &str) -> HostResult<Controller> {
    parse("nvme id-ctrl", text)
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

/// Asks for a namespace's own features.
///
/// # Errors
/// The program does not run, or answers something else.
pub async fn namespace(device: &Path) -> HostResult<Namespace> {
    let output = nvme("id-ns", &[], device).await?.success("nvme id-ns")?;
    parse("nvme id-ns", &output.stdout)
}

/// Asks how the last sanitize of the subsystem stands.
///
/// # Errors
/// The program does not run, or answers something else.
pub async fn sanitize_log(device: &Path) -> HostResult<SanitizeLog> {
    let output = nvme("sanitize-log", &[], device).await?;
    parse_sanitize_log(&output.success("nvme sanitize-log")?.stdout)
}

/// The log is below the device's name, and its status reads "(2) Sanitize In Progress": one release of nvme-cli has that text
/// under another name, so it is known by its form.
pub(crate) fn parse_sanitize_log(text: &str) -> HostResult<SanitizeLog> {
    let strange = |what: &str| {
        HostError::wipe_not_proven(format!("nvme sanitize-log answered something else: {what}"))
    };
    let by_device: std::collections::BTreeMap<String, SanitizeReport> =
        parse("nvme sanitize-log", text)?;
    let mut reports = by_device.into_values();
    let (Some(report), None) = (reports.next(), reports.next()) else {
        return Err(strange("not one device"));
    };
    let numbers = report.sstat.values().filter_map(|value| {
        let text = value.as_str()?.strip_prefix('(')?;
        text.split_once(')')?.0.parse::<u32>().ok()
    });
    let state = match numbers.collect::<Vec<_>>().as_slice() {
        [0] => SanitizeState::Never,
        // with or without deallocation of the blocks
        [1 | 4] => SanitizeState::Completed,
        [2] => SanitizeState::Running,
        [3] => SanitizeState::Failed,
        other => return Err(strange(&format!("status {other:?}"))),
    };
    let erased = report.sstat.get("global_erased");
    Ok(SanitizeLog {
        state,
        progress: report.sprog,
        global_erased: erased.and_then(serde_json::Value::as_u64) == Some(1),
    })
}

async fn nvme(command: &str, flags: &[&str], device: &Path) -> HostResult<Output> {
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
    serde_json::from_str(text).map_err(|error| {
        HostError::wipe_not_proven(format!("{program} answered something else: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What nvme-cli 2.8 prints for a data-centre disk, shortened.
    const ID_CTRL: &str = r#"{"vid":4932,"ssvid":4932,"sn":"234844A10331","mn":"Micron_7450_MTFDKCB7T6TFR",
        "fr":"E2MU200","cmic":0,"mdts":6,"cntlid":0,"ver":66560,"oacs":94,"acl":3,"aerl":7,"frmw":31,
        "sanicap":3,"nn":128,"oncs":94,"fuses":0,"fna":4,"vwc":6,"psds":[{"max_power":2500}]}"#;

    fn with(oacs: u32, fna: u32, nn: u32) -> Controller {
        Controller {
            oacs,
            fna,
            nn,
            sanicap: 0,
        }
    }

    #[test]
    fn d_75_a_controllers_own_report_is_read() {
        let controller: Controller = parse("nvme id-ctrl", ID_CTRL).unwrap();
        let expected = Controller {
            sanicap: 3,
            ..with(94, 4, 128)
        };
        assert_eq!(controller, expected);
        assert!(controller.sanitizes_by_crypto() && controller.sanitizes_blocks());
        assert_eq!(check_format(&controller, Some(&[1, 2]), 1), Ok(()));
        let list = r#"{"nsid_list":[{"nsid":1},{"nsid":7}]}"#;
        assert_eq!(parse_namespaces(list).unwrap(), [1, 7]);
        // a report without the attributes proves nothing
        let without = ID_CTRL.replace("\"fna\":4,", "");
        assert!(parse::<Controller>("nvme id-ctrl", &without).is_err());
        assert!(parse_namespaces("{}").is_err());
    }

    #[test]
    fn d_75_metadata_beside_the_blocks_is_seen() {
        let report = |flbas: u32, dps: u32| {
            let text = format!(
                r#"{{"nsze":7,"flbas":{flbas},"dps":{dps},"dlfeat":9,
                "lbafs":[{{"ms":0,"ds":9,"rp":0}},{{"ms":8,"ds":9,"rp":0}},{{"ms":0,"ds":12,"rp":0}}]}}"#
            );
            parse::<Namespace>("nvme id-ns", &text)
                .unwrap()
                .has_metadata()
        };
        assert!(!report(0, 0) && !report(2, 0));
        assert!(report(1, 0), "eight bytes for each block");
        assert!(report(0, 1), "protection information");
        assert!(report(0x11, 0), "at the end of each block");
    }

    #[test]
    fn d_75_the_sanitize_log_is_read_as_every_release_writes_it() {
        let log = |sstat: &str, sprog: u32| {
            let text = format!(
                r#"{{"nvme0n1":{{"sprog":{sprog},"sstat":{sstat},"cdw10_info":4,"time_over_write":4294967295}}}}"#
            );
            parse_sanitize_log(&text)
        };
        for (sstat, state, global_erased) in [
            (
                r#"{"global_erased":1,"no_cmplted_passes":0,"status":"(1) Most Recent Sanitize Command Completed Successfully."}"#,
                SanitizeState::Completed,
                true,
            ),
            (
                r#"{"media_verification_canceled":0,"global_erased":0,"no_cmplted_passes":0,"status":"(2) Sanitize in Progress."}"#,
                SanitizeState::Running,
                false,
            ),
            (
                r#"{"global_erased":0,"no_cmplted_passes":0,"Sanitize in Progress.":"(2) Sanitize in Progress."}"#,
                SanitizeState::Running,
                false,
            ),
            (
                r#"{"global_erased":0,"no_cmplted_passes":0,"status":"(3) Most Recent Sanitize Command Failed."}"#,
                SanitizeState::Failed,
                false,
            ),
            (
                r#"{"global_erased":1,"no_cmplted_passes":0,"status":"(0) NVM Subsystem has never been sanitized."}"#,
                SanitizeState::Never,
                true,
            ),
        ] {
            let expected = SanitizeLog {
                state,
                progress: 32768,
                global_erased,
            };
            assert_eq!(log(sstat, 32768).unwrap(), expected);
        }
        for bad in [
            "{}",
            r#"{"status":"In Progress"}"#,
            r#"{"status":"(7) Unknown"}"#,
        ] {
            assert!(log(bad, 0).is_err(), "{bad}");
        }
        assert!(parse_sanitize_log("{}").is_err());
    }

    #[test]
    fn d_75_a_sanitize_reaches_every_namespace() {
        let (many, single) = (with(94, 0, 128), with(94, 0, 1));
        assert!(is_alone(&many, Some(&[1]), 1));
        assert!(!is_alone(&many, Some(&[1, 2]), 1));
        assert!(!is_alone(&many, Some(&[2]), 1));
        assert!(!is_alone(&many, None, 1));
        assert!(is_alone(&single, None, 1));
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
