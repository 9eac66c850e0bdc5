//! The cloud-init seed (D-38..D-44): NoCloud `user-data` and `meta-data` on an ISO image.
//!
//! Every value that goes in is of a narrow type, so nothing a caller sends can add a line to the YAML.
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use gpuaas_common::value::is_lower_hex;
use gpuaas_proto::gpuaas::common::v1::DriverStrategy;
use ssh_key::PublicKey;

use crate::error::{HostError, HostResult, io_error};
use crate::host::exec;
use crate::ids::{AllocationId, DnsLabel, ParseError};

gpuaas_common::text_value!(
    GuestUser,
    "guest_user",
    "\"u_\" and 16 lower-case hex digits",
    |text| {
        let hex = text.strip_prefix("u_")?;
        (hex.len() == 16 && hex.bytes().all(is_lower_hex)).then(|| text.to_owned())
    }
);

/// Parses the guest's host name.
///
/// # Errors
/// What is not a DNS label.
pub fn hostname(text: &str) -> Result<DnsLabel, ParseError> {
    text.parse()
        .map_err(|error: ParseError| error.of("hostname"))
}

/// A public key as it goes into `authorized_keys`: type and base64, without the comment, which is free text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizedKey(String);

impl FromStr for AuthorizedKey {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        const BAD: ParseError = ParseError {
            what: "ssh_public_keys",
            rule: "OpenSSH public keys",
        };
        let mut key = PublicKey::from_openssh(text.trim()).map_err(|_| BAD)?;
        key.set_comment("");
        key.to_openssh()
            .map(|line| Self(line.trim().to_owned()))
            .map_err(|_| BAD)
    }
}

/// The guest's configuration for its first boot.
#[derive(Debug, Clone)]
pub struct Seed {
    /// Instance id of cloud-init.
    pub allocation: AllocationId,
    /// Host name.
    pub hostname: DnsLabel,
    /// Guest user.
    pub user: GuestUser,
    /// The caller's keys and the host's relay key (D-40, D-88).
    pub keys: Vec<AuthorizedKey>,
    /// How the guest gets its drivers.
    pub drivers: DriverStrategy,
}

/// Packages of the guest runtime (D-42).
const DRIVER_PACKAGES: [&str; 5] = [
    "nvidia-driver-570-server",
    "nvidia-utils-570-server",
    "rdma-core",
    "ibverbs-utils",
    "infiniband-diags",
];

impl Seed {
    /// `meta-data`.
    pub fn meta_data(&self) -> String {
        format!(
            "instance-id: {}\nlocal-hostname: {}\n",
            self.allocation, self.hostname
        )
    }

    /// `user-data`, flat two-space YAML.
    pub fn user_data(&self) -> String {
        let mut text = String::from("#cloud-config\nusers:\n");
        text.push_str(&format!("  - name: {}\n", self.user.0));
        text.push_str(
            "    gecos: GPUaaS guest user\n    shell: /bin/bash\n    lock_passwd: true\n",
        );
        text.push_str("    sudo: 'ALL=(ALL) NOPASSWD:ALL'\n    ssh_authorized_keys:\n");
        for key in &self.keys {
            text.push_str(&format!("      - \"{}\"\n", key.0));
        }
        text.push_str("ssh_pwauth: false\ndisable_root: true\n");
        if self.drivers == DriverStrategy::CloudInit {
            text.push_str("package_update: true\npackages:\n");
            for package in DRIVER_PACKAGES {
                text.push_str(&format!("  - {package}\n"));
            }
            text.push_str("runcmd:\n  - [sh, -c, 'apt-get install -y linux-headers-$(uname -r) linux-modules-extra-$(uname -r)']\n");
            text.push_str("power_state:\n  mode: reboot\n  condition: true\n");
        }
        text
    }
}

/// Writes the seed image, replacing an earlier one.
pub async fn write_iso(seed: &Seed, folder: &Path, iso: &Path) -> HostResult<()> {
    let work = tempfile_in(folder)?;
    let meta = work.join("meta-data");
    let user = work.join("user-data");
    let part = work.join("seed.iso");
    std::fs::write(&meta, seed.meta_data()).map_err(io_error("cannot write the seed"))?;
    std::fs::write(&user, seed.user_data()).map_err(io_error("cannot write the seed"))?;
    let fixed = ["-quiet", "-V", "cidata", "-J", "-r", "-o"];
    let mut arguments: Vec<&std::ffi::OsStr> = fixed.iter().map(AsRef::as_ref).collect();
    arguments.extend([part.as_os_str(), meta.as_os_str(), user.as_os_str()]);
    exec::run("genisoimage", &arguments, Duration::from_secs(30))
        .await?
        .success("genisoimage")?;
    std::fs::rename(&part, iso).map_err(io_error("cannot place the seed"))?;
    std::fs::remove_dir_all(&work).map_err(io_error("cannot tidy the seed's folder"))
}

/// An empty folder of our own below `folder`; a leftover of an earlier try is removed.
fn tempfile_in(folder: &Path) -> HostResult<std::path::PathBuf> {
    let work = folder.join("work");
    match std::fs::remove_dir_all(&work) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(HostError::internal(format!(
                "cannot tidy the seed's folder: {error}"
            )));
        }
        _ => {}
    }
    std::fs::create_dir_all(&work).map_err(io_error("cannot make the seed's folder"))?;
    Ok(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAmxc03cp2l5BJE4mlJolCBwbNYywLgRgatR5QrcvVSv";

    fn seed(drivers: DriverStrategy) -> Seed {
        Seed {
            allocation: "0192f0c1-aaaa-7bbb-8ccc-0123456789ab".parse().unwrap(),
            hostname: "gpu-guest".parse().unwrap(),
            user: "u_adda9308def04a2f".parse().unwrap(),
            keys: vec![
                format!("{KEY} me@\"home\"").parse().unwrap(),
                KEY.parse().unwrap(),
            ],
            drivers,
        }
    }

    #[test]
    fn d_40_user_and_keys_are_in_the_seed_and_comments_are_not() {
        let text = seed(DriverStrategy::None).user_data();
        assert!(
            text.starts_with("#cloud-config\nusers:\n  - name: u_adda9308def04a2f\n"),
            "{text}"
        );
        assert_eq!(
            text.matches(&format!("      - \"{KEY}\"\n")).count(),
            2,
            "{text}"
        );
        assert!(!text.contains("home") && !text.contains("packages"));
        assert_eq!(
            seed(DriverStrategy::None).meta_data(),
            "instance-id: 0192f0c1-aaaa-7bbb-8ccc-0123456789ab\nlocal-hostname: gpu-guest\n"
        );
    }

    #[test]
    fn d_41_d_44_drivers_are_installed_only_when_the_strategy_says_so() {
        assert!(
            seed(DriverStrategy::CloudInit)
                .user_data()
                .contains("  - nvidia-driver-570-server\n")
        );
        assert!(
            !seed(DriverStrategy::Preinstalled)
                .user_data()
                .contains("nvidia")
        );
    }

    #[test]
    fn nothing_a_caller_sends_adds_a_line() {
        for user in [
            "root",
            "u_ADDA9308DEF04A2F",
            "u_adda9308def04a2f\n  - name: root",
            "",
        ] {
            assert!(user.parse::<GuestUser>().is_err(), "{user}");
        }
        for name in ["a\nb", "-a", "A", "", "a.b"] {
            assert!(name.parse::<DnsLabel>().is_err(), "{name}");
        }
        for key in [
            "ssh-ed25519 AAAA",
            "",
            "nonsense",
            "command=\"x\" ssh-ed25519 AAAA",
        ] {
            assert!(key.parse::<AuthorizedKey>().is_err(), "{key}");
        }
    }
}
