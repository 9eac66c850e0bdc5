//! Signatures of this host instance, by the key it enrolled with.
use anyhow::{Context as _, bail};
use gpuaas_common::config::Settings as CommonSettings;
use gpuaas_wipe_certificate::Statement;

use super::files::{Files, Validity};
use crate::settings::Settings;

/// Signs for this host instance. Reads its files at every signature: the certificate is renewed while the agent serves.
#[derive(Debug, Clone)]
pub struct Signer(Files);

impl Signer {
    /// With the files of the settings.
    pub fn of(own: &Settings, common: &CommonSettings) -> Self {
        Self(Files::of(own, common))
    }

    /// When this host's certificate counts; `None` when it has none.
    pub fn validity(&self) -> Option<Validity> {
        let (_, key) = self.0.enrolled().ok()??;
        self.0.validity(&key)
    }

    /// Certifies a wipe: fills in which node and instance this host is, and signs.
    ///
    /// # Errors
    /// This host has not enrolled, or its files are unusable.
    pub fn certify(&self, mut statement: Statement) -> anyhow::Result<String> {
        let Some((identity, _)) = self.0.enrolled()? else {
            bail!("this host has not enrolled");
        };
        let (key, chain) = self.0.key_and_chain()?;
        statement.node_id = identity.node_id;
        statement.instance_id = identity.instance_id;
        gpuaas_wipe_certificate::sign(statement, &key, &chain).context("cannot sign")
    }
}
