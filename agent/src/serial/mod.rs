//! Serial logs: what the VMs of this host printed on their serial consoles, live and for some time after they are gone.
//!
//! libvirt writes a log per VM and keeps little of it ([`source`]); it knows no times. So the agent reads on from where it
//! was, twice a second, and keeps what it read with the time in an [`archive`] per VM, bounded by size and by age. Whoever
//! reads a serial log reads the archive, whether its VM runs or not; it is read from the hypervisor's log first, so nothing
//! that was printed is missing. An archive has its VM's name, and that its allocation's: no other can be asked for by it.
mod archive;
mod follow;
mod source;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use gpuaas_common::CancellationToken;
use tokio::sync::Semaphore;

pub use archive::Chunk;
pub use follow::{Position, Reading, follow};

use crate::error::{HostResult, io_error};
use crate::host::blocking;
use crate::ids::VmName;
use crate::settings::SerialLog;
use crate::vm::serial_log;
use crate::wall_clock::now_ms;
use archive::{Archive, MAX_RECORD, Tail};
use source::Source;

/// Below the folder of the logs.
const ARCHIVES: &str = "archive";
/// Between two deletions of what is too old.
const PRUNE_INTERVAL: Duration = Duration::from_secs(3600);
/// Most bytes that are read of one log at once, so that a VM that prints without end holds nobody up.
const MAX_AT_ONCE: usize = 8 << 20;
/// Serial logs that are read at once.
const READERS: usize = 64;

/// The serial logs of a host.
#[derive(Debug)]
pub struct SerialLogs {
    folder: PathBuf,
    settings: SerialLog,
    /// Those that grow.
    growing: Mutex<HashMap<VmName, Growing>>,
    readers: Arc<Semaphore>,
}

#[derive(Debug)]
struct Growing {
    source: Source,
    tail: Tail,
}

impl SerialLogs {
    /// Those in a folder, which may not be there yet.
    pub fn new(folder: PathBuf, settings: SerialLog) -> Self {
        Self {
            folder,
            settings,
            growing: Mutex::default(),
            readers: Arc::new(Semaphore::new(READERS)),
        }
    }

    /// The hypervisor's own log of a VM.
    pub fn of_vm(&self, vm: &VmName) -> PathBuf {
        self.folder.join(format!("{vm}.log"))
    }

    fn archive(&self, vm: &VmName) -> Archive {
        let folder = self.folder.join(ARCHIVES).join(vm.as_str());
        Archive::new(folder, self.settings.max_bytes())
    }

    /// Whether the hypervisor has a log of the VM: it is there, and may print. For a moment there is only the rotated one.
    pub fn is_live(&self, vm: &VmName) -> bool {
        let rotated = self.folder.join(format!("{vm}.log.0"));
        self.of_vm(vm).exists() || rotated.exists()
    }

    fn growing(&self) -> MutexGuard<'_, HashMap<VmName, Growing>> {
        self.growing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads on in the log of a VM.
    ///
    /// # Errors
    /// Log or archive cannot be read or written.
    pub fn collect(&self, vm: &VmName) -> HostResult<()> {
        let mut growing = self.growing();
        if !self.is_live(vm) {
            return Ok(());
        }
        let outcome = self.collect_into(&mut growing, vm);
        if outcome.is_err() {
            // what was half written is cut off when it is opened again
            growing.remove(vm);
        }
        outcome.map_err(io_error(format_args!("cannot keep the serial log of {vm}")))
    }

    fn collect_into(
        &self,
        growing: &mut HashMap<VmName, Growing>,
        vm: &VmName,
    ) -> std::io::Result<()> {
        let archive = self.archive(vm);
        if !growing.contains_key(vm) {
            let tail = archive.open()?;
            let source = Source::new(&self.of_vm(vm), tail.cursor)?;
            growing.insert(vm.clone(), Growing { source, tail });
        }
        let Some(Growing { source, tail }) = growing.get_mut(vm) else {
            return Ok(());
        };
        let mut buffer = vec![0; MAX_RECORD];
        let mut read = 0;
        while read < MAX_AT_ONCE
            && let Some((length, cursor)) = source.read(&mut buffer)?
        {
            archive.append(tail, now_ms(), cursor, &buffer[..length])?;
            read += length;
        }
        Ok(())
    }

    /// Reads the rest of the log of a VM that is gone, and removes it. An archive that cannot be written keeps no VM from
    /// being removed.
    ///
    /// # Errors
    /// The log cannot be removed.
    pub fn end(&self, vm: &VmName) -> HostResult<()> {
        if let Err(error) = self.collect(vm) {
            tracing::warn!(%vm, %error, "the end of a serial log is lost");
        }
        let mut growing = self.growing();
        growing.remove(vm);
        serial_log::remove(&self.of_vm(vm))
    }

    /// VMs whose names are those of files or folders here.
    fn vms(folder: &Path, suffix: &str) -> HostResult<Vec<VmName>> {
        let failed = || io_error("cannot read the folder of serial logs");
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed())?,
        };
        let mut vms = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed())?.file_name();
            let vm = name.to_str().and_then(|name| name.strip_suffix(suffix));
            vms.extend(vm.and_then(|name| name.parse().ok()));
        }
        Ok(vms)
    }

    /// Reads on in the logs of all VMs.
    ///
    /// # Errors
    /// The first of those that could not be kept; the others are.
    fn collect_all(&self) -> HostResult<()> {
        let mut outcome = Ok(());
        for vm in Self::vms(&self.folder, ".log")? {
            let collected = self.collect(&vm);
            outcome = outcome.and(collected);
        }
        outcome
    }

    /// Deletes what is older than the retention.
    ///
    /// # Errors
    /// Something cannot be deleted.
    pub fn prune(&self, now: SystemTime) -> HostResult<usize> {
        let mut deleted = 0;
        for vm in Self::vms(&self.folder.join(ARCHIVES), "")? {
            // nothing is appended meanwhile
            let _growing = self.growing();
            let pruned = self
                .archive(&vm)
                .prune(now, self.settings.retention(), self.is_live(&vm));
            deleted += pruned.map_err(io_error(format_args!(
                "cannot delete the serial log of {vm}"
            )))?;
        }
        Ok(deleted)
    }
}

/// Keeps what the VMs print, and deletes what is too old, until `shutdown`.
pub async fn run(logs: &Arc<SerialLogs>, poll: Duration, shutdown: CancellationToken) {
    let mut prune_at = tokio::time::Instant::now();
    let mut was_failing = false;
    loop {
        let collecting = Arc::clone(logs);
        let collected = blocking::run(move || collecting.collect_all()).await;
        // once, and not twice a second
        match &collected {
            Err(error) if !was_failing => tracing::warn!(%error, "cannot keep serial logs"),
            _ => {}
        }
        was_failing = collected.is_err();
        if tokio::time::Instant::now() >= prune_at {
            prune_at += PRUNE_INTERVAL;
            let pruning = Arc::clone(logs);
            match blocking::run(move || pruning.prune(SystemTime::now())).await {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, "delete old serial logs"),
                Err(error) => tracing::warn!(%error, "cannot delete old serial logs"),
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(poll) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use gpuaas_dev::until::until;

    use super::*;
    use crate::ids::AllocationId;

    pub(super) fn vm(n: u128) -> VmName {
        AllocationId(uuid::Uuid::from_u128(n)).vm_name()
    }

    pub(super) fn logs(dir: &Path) -> Arc<SerialLogs> {
        let settings = SerialLog {
            retention_days: 30,
            max_mib: 16,
        };
        Arc::new(SerialLogs::new(dir.join("serial"), settings))
    }

    pub(super) fn print(logs: &SerialLogs, vm: &VmName, text: &str) {
        let path = logs.of_vm(vm);
        serial_log::prepare(&path).unwrap();
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn text(logs: &SerialLogs, vm: &VmName) -> String {
        let chunks = logs.archive(vm).read(0, usize::MAX).unwrap();
        chunks
            .iter()
            .map(|chunk| String::from_utf8_lossy(&chunk.data))
            .collect()
    }

    #[test]
    fn p2_what_a_vm_printed_is_kept_after_it_is_gone_and_goes_with_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let logs = logs(dir.path());
        let (mine, other) = (vm(1), vm(2));
        logs.end(&mine).unwrap();
        print(&logs, &mine, "booting\n");
        print(&logs, &other, "another tenant's\n");
        logs.collect_all().unwrap();
        print(&logs, &mine, "bye\n");
        logs.end(&mine).unwrap();
        assert!(!logs.is_live(&mine) && logs.is_live(&other));
        assert_eq!(text(&logs, &mine), "booting\nbye\n");
        assert_eq!(text(&logs, &other), "another tenant's\n");

        let day = Duration::from_secs(86_400);
        assert_eq!(logs.prune(SystemTime::now() + day * 29).unwrap(), 0);
        assert_eq!(logs.prune(SystemTime::now() + day * 31).unwrap(), 1);
        assert_eq!(text(&logs, &mine), "");
        assert!(
            !dir.path()
                .join("serial/archive")
                .join(mine.as_str())
                .exists()
        );
        assert_eq!(text(&logs, &other), "another tenant's\n", "its VM is there");
    }

    #[test]
    fn an_agent_that_starts_again_keeps_every_byte_once() {
        let dir = tempfile::tempdir().unwrap();
        let vm = vm(1);
        let before = logs(dir.path());
        print(&before, &vm, "before ");
        before.collect(&vm).unwrap();
        print(&before, &vm, "meanwhile ");
        let after = logs(dir.path());
        after.collect(&vm).unwrap();
        print(&after, &vm, "after");
        after.collect_all().unwrap();
        assert_eq!(text(&after, &vm), "before meanwhile after");
    }

    #[tokio::test]
    async fn logs_are_kept_while_nobody_reads_them_with_the_time() {
        let dir = tempfile::tempdir().unwrap();
        let (logs, vm, shutdown) = (logs(dir.path()), vm(1), CancellationToken::new());
        let from = now_ms();
        print(&logs, &vm, "one");
        let watch = async {
            until("the text", Duration::from_secs(20), async || {
                (text(&logs, &vm) == "one").then_some(())
            })
            .await;
            shutdown.cancel();
        };
        tokio::join!(
            run(&logs, Duration::from_millis(5), shutdown.clone()),
            watch
        );
        let read = logs.archive(&vm).read(0, 10).unwrap();
        assert!((from..=now_ms()).contains(&read[0].time_ms), "{read:?}");
    }
}
