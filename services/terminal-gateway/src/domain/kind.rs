//! What a session carries: a shell, or the connection in which a user's own SSH client logs in.
use gpuaas_common::{Error, Result};
use gpuaas_proto::gpuaas::terminal::v1::TerminalKind;

/// A kind of session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A shell with a terminal, which its host logs in to.
    Shell,
    /// A connection to the SSH server of a VM. Its bytes are encrypted between user and VM: nothing of it can be recorded, and
    /// none may be missing.
    SshTunnel,
}

impl Kind {
    /// The kind of a request; a shell when it names none.
    ///
    /// # Errors
    /// There is no such kind.
    pub(crate) fn requested(kind: i32) -> Result<Self> {
        match TerminalKind::try_from(kind) {
            Ok(TerminalKind::Unspecified | TerminalKind::Shell) => Ok(Self::Shell),
            Ok(TerminalKind::SshTunnel) => Ok(Self::SshTunnel),
            Err(_) => Err(Error::invalid("kind", "must be shell or ssh_tunnel")),
        }
    }

    /// The kind of a row.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Shell, Self::SshTunnel]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    /// In rows, messages and audit records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::SshTunnel => "ssh_tunnel",
        }
    }

    /// In the contract.
    pub(crate) const fn wire(self) -> TerminalKind {
        match self {
            Self::Shell => TerminalKind::Shell,
            Self::SshTunnel => TerminalKind::SshTunnel,
        }
    }

    /// Whether a session outlives its connection.
    pub(crate) const fn resumes(self) -> bool {
        matches!(self, Self::Shell)
    }

    /// Most bytes of output beyond what is granted. A tunnel carries files: the window is what is on its way at once.
    pub(crate) const fn output_window(self) -> u64 {
        match self {
            Self::Shell => 256 << 10,
            Self::SshTunnel => 1 << 20,
        }
    }

    /// Most bytes of output that are kept: of a shell also some that were acknowledged, for a client that comes back.
    pub(crate) const fn kept(self) -> u64 {
        match self {
            Self::Shell => 2 * self.output_window(),
            Self::SshTunnel => self.output_window(),
        }
    }

    /// Most bytes of input beyond what the host took.
    pub(crate) const fn input_window(self) -> u64 {
        match self {
            Self::Shell => 64 << 10,
            Self::SshTunnel => 1 << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_name_and_a_request_without_one_is_a_shell() {
        for kind in [Kind::Shell, Kind::SshTunnel] {
            assert_eq!(Kind::named(kind.name()), Some(kind));
            assert_eq!(Kind::requested(kind.wire().into()).ok(), Some(kind));
            let wire = kind.wire().as_str_name();
            assert_eq!(
                wire,
                format!("TERMINAL_KIND_{}", kind.name().to_uppercase())
            );
        }
        assert_eq!(Kind::requested(0).ok(), Some(Kind::Shell));
        assert_eq!(Kind::named("vnc"), None);
        let error = Kind::requested(99).expect_err("no such kind");
        assert_eq!(error.fields()[0].0, "kind");
    }
}
