//! A running system of its own for the measurements, made of the programs beside the one that measures: a release
//! build measures release programs.
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gpuaas_dev::ports::Instance;
use gpuaas_dev::process::Process;
use gpuaas_dev::seed::{self, Api, Tokens};
use gpuaas_dev::stack::{Options, Stack};

const INSTANCE: u16 = 61;

/// A started system.
pub struct System {
    /// Its parts.
    pub stack: Stack,
    /// A member of the project.
    pub user: Api,
    /// Id of the project.
    pub project: String,
}

/// Settings by part, `section.key=value`.
pub type Settings<'a> = &'a [(&'a str, &'a str)];

fn options(root: PathBuf, settings: Settings<'_>) -> anyhow::Result<Options> {
    let mut options = Options::beside(root, Instance::new(INSTANCE)?);
    options.lab = false;
    let own = std::env::current_exe()?;
    let beside = own.parent().context("a program lies in a folder")?;
    options.programs.insert(0, beside.to_path_buf());
    for (part, setting) in settings {
        let all = options.settings.entry((*part).to_owned()).or_default();
        all.push((*setting).to_owned());
    }
    Ok(options)
}

impl System {
    /// Starts and seeds it, without any host.
    ///
    /// # Errors
    /// The first part that does not come up.
    pub async fn start(settings: Settings<'_>) -> anyhow::Result<Self> {
        let root = gpuaas_dev::paths::run_dir().join("bench/edge");
        let stack = Stack::new(options(root.clone(), settings)?)?;
        let quiet = |line: &str| eprintln!("{line}");
        stack.up(&quiet).await?;
        let project = seed::principals(&stack)?;
        seed::all(&stack, &quiet).await?;
        let file = Tokens::of(&root).user;
        Ok(Self {
            user: Api::new(&stack.api_url(), &file)?,
            stack,
            project,
        })
    }

    /// Folder of everything it keeps.
    pub fn root(&self) -> &Path {
        &self.stack.options().root
    }

    /// The process of a part.
    ///
    /// # Errors
    /// It does not run.
    pub async fn process(&self, part: &str) -> anyhow::Result<Process> {
        let rows = self.stack.status().await?;
        let row = rows.into_iter().find(|row| row.part == part);
        row.and_then(|row| row.process)
            .with_context(|| format!("{part} does not run"))
    }
}
