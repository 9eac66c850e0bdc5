//! The host that is prepared: its files below a root, its programs, its kernel's attributes.
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::error::{HostError, HostResult};
use crate::host::exec;
use crate::host::output::Output;
use crate::host::recording;
use crate::host::root::HostRoot;

/// Longest wait for a program that looks at something.
const ASK_LIMIT: Duration = Duration::from_secs(30);
/// Longest wait for one that changes something: an installation of packages, the discard of a large disk.
const RUN_LIMIT: Duration = Duration::from_secs(3600);

/// How attributes of the kernel are written.
pub trait Kernel: Send + Sync {
    /// Writes a value to an attribute below `root`.
    ///
    /// # Errors
    /// The attribute is not there, or the kernel refuses the value.
    fn write(&self, root: &HostRoot, path: &Path, value: &str) -> io::Result<()>;
}

/// The files of sysfs and procfs.
pub struct Sysfs;

impl Kernel for Sysfs {
    fn write(&self, root: &HostRoot, path: &Path, value: &str) -> io::Result<()> {
        // never made: an attribute that is not there is none
        let mut file = OpenOptions::new().write(true).open(root.path(path))?;
        file.write_all(value.as_bytes())
    }
}

/// A host.
pub struct Machine {
    pub root: HostRoot,
    /// Where programs are found; `None`: by the PATH of this process, and only where the root is the live host, so that
    /// what is planned for a tree of files never changes the machine it lies on.
    programs: Option<OsString>,
    kernel: Arc<dyn Kernel>,
}

impl Machine {
    /// A host of these files. `programs` is a search path that replaces PATH.
    pub fn new(root: HostRoot, programs: Option<OsString>) -> Self {
        Self {
            root,
            programs,
            kernel: Arc::new(Sysfs),
        }
    }

    /// The same with another kernel.
    #[must_use]
    pub fn with_kernel(self, kernel: Arc<dyn Kernel>) -> Self {
        Self { kernel, ..self }
    }

    /// Asks a program what is; it changes nothing.
    ///
    /// # Errors
    /// There is no such program here, or it does not end in time. Another exit status than zero is an answer.
    pub async fn ask(&self, program: &str, arguments: &[&str]) -> HostResult<Output> {
        let found = self.find(program)?;
        exec::run(&found, arguments, ASK_LIMIT).await
    }

    /// Runs a program that changes the host.
    ///
    /// # Errors
    /// There is no such program here, it does not end in time, or with another status than zero.
    pub async fn run(
        &self,
        program: &str,
        arguments: &[String],
        environment: &[(String, String)],
    ) -> HostResult<Output> {
        let found = self.find(program)?;
        let output = exec::run_with(&found, arguments, environment, RUN_LIMIT).await?;
        output.success(program)
    }

    /// `path`, or with `.1`, `.2` and so on behind it the first that is free: a backup is never written over, also when two
    /// runs fall into one second.
    pub fn free_path(&self, path: &str) -> PathBuf {
        let mut number = 0;
        let mut free = PathBuf::from(path);
        while self.root.exists(&free) {
            number += 1;
            free = format!("{path}.{number}").into();
        }
        free
    }

    /// Writes an attribute of the kernel.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn write_value(&self, path: &Path, value: &str) -> io::Result<()> {
        self.kernel.write(&self.root, path, value)
    }

    fn find(&self, program: &str) -> HostResult<String> {
        let missing = |what: &str| {
            let message = format!("{program} {what}");
            HostError::host(ErrorReason::HostNotReady, message)
        };
        let Some(search) = &self.programs else {
            if self.root.is_live() || recording::is_replay() {
                return Ok(program.to_owned());
            }
            return Err(missing(
                "is not run: the root is a folder, and --programs names no programs for it",
            ));
        };
        let found: Option<PathBuf> = std::env::split_paths(search)
            .map(|folder| folder.join(program))
            .find(|path| path.is_file());
        let found = found.ok_or_else(|| missing("is not installed"))?;
        Ok(found.to_string_lossy().into_owned())
    }
}
