//! The cloud-init seed of an allocation (D-38, D-39): NoCloud `user-data` and `meta-data` on an ISO image.
//!
//! Every value that goes into the platform's YAML is of a narrow type, so nothing a caller sends can add a line to it. A
//! tenant's user data is a part of its own ([`super::user_data`]).
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use gpuaas_common::user_data::UserData;
use gpuaas_common::value::is_lower_hex;
use gpuaas_proto::gpuaas::common::v1::DriverStrategy;
use ssh_key::PublicKey;

use super::user_data::{self, Own};
use crate::error::{HostError, HostResult, io_error};
use crate::guest::HostKey;
use crate::host::{blocking, exec};
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

/// Most bytes of a key with its comment: an RSA key of 16384 bits has a sixth of it.
const MAX_KEY: usize = 16 << 10;

/// A public key as it goes into `authorized_keys`: type and base64, without the comment, which is free text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizedKey(String);

impl FromStr for AuthorizedKey {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        const BAD: ParseError = ParseError {
            what: "ssh_public_keys",
            rule: "OpenSSH public keys, each of at most 16 KiB",
        };
        if text.len() > MAX_KEY {
            return Err(BAD);
        }
        let mut key = PublicKey::from_openssh(text.trim()).map_err(|_| BAD)?;
        key.set_comment("");
        key.to_openssh()
            .map(|line| Self(line.trim().to_owned()))
            .map_err(|_| BAD)
    }
}

/// The guest's configuration for its first boot.
#[derive(Debug)]
pub struct Seed {
    /// Instance id of cloud-init.
    pub allocation: AllocationId,
    /// Host name.
    pub hostname: DnsLabel,
    /// Guest user.
    pub user: GuestUser,
    /// The caller's keys and the host's relay key (D-40, D-88).
    pub keys: Vec<AuthorizedKey>,
    /// How the guest gets its drivers: by the image, which may have them, or at its first boot (D-41, D-44, D-46).
    pub drivers: DriverStrategy,
    /// The tenant's own part.
    pub user_data: Option<UserData>,
    /// What the guest proves itself with (P11).
    pub host_key: HostKey,
}

/// Packages of the guest runtime (D-42); the guest restarts after them (D-43).
///
/// partly E-29: no image with drivers is built by the product, and none has readiness checks of its drivers
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

    /// `user-data`: the platform's part, flat two-space YAML, and the tenant's beside it.
    ///
    /// # Errors
    /// A host key that cannot be written as text.
    pub fn user_data(&self) -> HostResult<String> {
        let private = self.host_key.private_text()?;
        let own = Own {
            lists: self.lists(),
            settings: self.settings(&private),
        };
        Ok(user_data::text(&own, self.user_data.as_ref(), &private))
    }

    fn lists(&self) -> String {
        let mut text = String::from("users:\n");
        text.push_str(&format!("  - name: {}\n", self.user.0));
        text.push_str(
            "    gecos: GPUaaS guest user\n    shell: /bin/bash\n    lock_passwd: true\n",
        );
        text.push_str("    sudo: 'ALL=(ALL) NOPASSWD:ALL'\n    ssh_authorized_keys:\n");
        for key in &self.keys {
            text.push_str(&format!("      - \"{}\"\n", key.0));
        }
        if self.drivers == DriverStrategy::CloudInit {
            text.push_str("packages:\n");
            for package in DRIVER_PACKAGES {
                text.push_str(&format!("  - {package}\n"));
            }
            text.push_str("runcmd:\n  - [sh, -c, 'apt-get install -y linux-headers-$(uname -r) linux-modules-extra-$(uname -r)']\n");
        }
        text
    }

    fn settings(&self, private_key: &str) -> String {
        let mut text = String::from("ssh_pwauth: false\ndisable_root: true\n");
        // keys that the image brought or made by itself would be others'
        text.push_str("ssh_deletekeys: true\nssh_keys:\n  ed25519_private: |\n");
        for line in private_key.lines() {
            text.push_str(&format!("    {line}\n"));
        }
        text.push_str(&format!("  ed25519_public: {}\n", self.host_key.public()));
        if self.drivers == DriverStrategy::CloudInit {
            text.push_str(
                "package_update: true\npower_state:\n  mode: reboot\n  condition: true\n",
            );
        }
        text
    }
}

/// Writes the seed image, replacing an earlier one. It holds the guest's private host key: the agent alone reads it, and
/// libvirt gives it to the hypervisor's user while the VM has it.
pub async fn write_iso(seed: &Seed, folder: &Path, iso: &Path) -> HostResult<()> {
    let work = folder.join("work");
    let meta = work.join("meta-data");
    let user = work.join("user-data");
    let part = work.join("seed.iso");
    let files = [
        (&meta, seed.meta_data()),
        (&user, seed.user_data()?),
        (&part, String::new()),
    ];
    // here, not on another thread: nothing may still be written once a cancelled step's seed is removed
    blocking::here(|| {
        make_empty(&work)?;
        files.iter().try_for_each(|(file, text)| {
            write_private(file, text).map_err(io_error("cannot write the seed"))
        })
    })?;
    // Rock Ridge with the files' own modes: in the guest, too, only root reads them
    let fixed = ["-quiet", "-V", "cidata", "-J", "-R", "-o"];
    let mut arguments: Vec<&std::ffi::OsStr> = fixed.iter().map(AsRef::as_ref).collect();
    arguments.extend([part.as_os_str(), meta.as_os_str(), user.as_os_str()]);
    exec::run("genisoimage", &arguments, Duration::from_secs(30))
        .await?
        .success("genisoimage")?;
    blocking::here(|| {
        std::fs::rename(&part, iso).map_err(io_error("cannot place the seed"))?;
        std::fs::remove_dir_all(&work).map_err(io_error("cannot tidy the seed's folder"))
    })
}

/// Makes the folder of a VM's seed: passed through by the hypervisor's user, who opens the seed, and read by nobody.
///
/// # Errors
/// It cannot be made.
pub fn make_folder(folder: &Path) -> HostResult<()> {
    std::fs::create_dir_all(folder).map_err(io_error("cannot make the seed's folder"))?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o711))
        .map_err(io_error("cannot set the mode of the seed's folder"))
}

/// Makes an empty folder of our own; a leftover of an earlier try is removed.
fn make_empty(work: &Path) -> HostResult<()> {
    match std::fs::remove_dir_all(work) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(HostError::internal(format!(
                "cannot tidy the seed's folder: {error}"
            )));
        }
        _ => {}
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(work)
        .map_err(io_error("cannot make the seed's folder"))
}

fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    let mut out = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    out.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAmxc03cp2l5BJE4mlJolCBwbNYywLgRgatR5QrcvVSv";

    fn seed(drivers: DriverStrategy) -> Seed {
        let dir = tempfile::tempdir().unwrap();
        Seed {
            allocation: "0192f0c1-aaaa-7bbb-8ccc-0123456789ab".parse().unwrap(),
            hostname: "gpu-guest".parse().unwrap(),
            user: "u_adda9308def04a2f".parse().unwrap(),
            keys: vec![
                format!("{KEY} me@\"home\"").parse().unwrap(),
                KEY.parse().unwrap(),
            ],
            drivers,
            user_data: None,
            host_key: HostKey::load_or_create(&dir.path().join("host_key")).unwrap(),
        }
    }

    fn user_data(drivers: DriverStrategy) -> String {
        seed(drivers).user_data().unwrap()
    }

    #[test]
    fn d_40_user_and_keys_are_in_the_seed_and_comments_are_not() {
        let text = user_data(DriverStrategy::None);
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

    /// The base image (E-10) and the one with drivers (E-11) live beside each other (CON-08); a base without a
    /// strategy gets no toolchain (E-30).
    /// D-46
    #[test]
    fn d_41_d_44_drivers_are_installed_only_when_the_strategy_says_so() {
        assert!(user_data(DriverStrategy::CloudInit).contains("  - nvidia-driver-570-server\n"));
        assert!(!user_data(DriverStrategy::Preinstalled).contains("nvidia"));
    }

    #[test]
    fn d_42_d_43_the_drivers_and_tools_are_installed_and_the_guest_starts_again() {
        let text = user_data(DriverStrategy::CloudInit);
        for package in [
            "nvidia-driver-570-server",
            "nvidia-utils-570-server",
            "rdma-core",
            "ibverbs-utils",
            "infiniband-diags",
        ] {
            assert!(text.contains(&format!("\n  - {package}\n")), "{package}");
        }
        let of_kernel = "linux-headers-$(uname -r) linux-modules-extra-$(uname -r)";
        assert!(text.contains(of_kernel), "{text}");
        assert!(text.contains("\npower_state:\n  mode: reboot\n"), "{text}");
        for other in [DriverStrategy::None, DriverStrategy::Preinstalled] {
            let text = user_data(other);
            assert!(!text.contains("packages") && !text.contains("reboot"));
        }
    }

    #[test]
    fn p11_the_guest_gets_the_host_key_that_the_host_made_and_no_other() {
        let seed = seed(DriverStrategy::None);
        let text = seed.user_data().unwrap();
        assert!(text.contains("\nssh_deletekeys: true\nssh_keys:\n  ed25519_private: |\n    -----BEGIN OPENSSH PRIVATE KEY-----\n"));
        let (_, key) = text.split_once("ed25519_private: |\n").unwrap();
        let private: String = key
            .lines()
            .take_while(|line| line.starts_with("    "))
            .map(|line| format!("{}\n", &line[4..]))
            .collect();
        let private = russh::keys::PrivateKey::from_openssh(private).unwrap();
        let public = private.public_key().to_openssh().unwrap();
        let public: Vec<&str> = public.split(' ').take(2).collect();
        assert_eq!(public.join(" "), seed.host_key.public());
        assert!(text.ends_with(&format!("  ed25519_public: {}\n", seed.host_key.public())));
        assert!(!format!("{seed:?}").contains("PRIVATE"), "never logged");
    }

    #[test]
    fn the_tenants_user_data_takes_nothing_from_the_platforms_part() {
        let seed = Seed {
            user_data: Some(
                "#cloud-config\nusers: []\nssh_pwauth: true # secret\n"
                    .parse()
                    .unwrap(),
            ),
            ..seed(DriverStrategy::CloudInit)
        };
        let text = seed.user_data().unwrap();
        assert!(text.starts_with("Content-Type: multipart/mixed;"), "{text}");
        for own in [
            "users:\n  - name: u_adda9308def04a2f\n",
            "\npackages:\n",
            "\nruncmd:\n",
            "\nssh_pwauth: false\ndisable_root: true\n",
            "\nssh_keys:\n  ed25519_private: |\n",
            "\npower_state:\n",
        ] {
            assert_eq!(text.matches(own).count(), 1, "{own}");
        }
        assert!(
            !text.contains("secret"),
            "it is encoded: no line of it is one of ours"
        );
        assert!(!format!("{seed:?}").contains("secret"), "never logged");
    }

    #[tokio::test]
    async fn p11_nobody_but_the_agent_reads_a_seed() {
        let dir = tempfile::tempdir().unwrap();
        let iso = dir.path().join("seed.iso");
        for _ in 0..2 {
            write_iso(&seed(DriverStrategy::None), dir.path(), &iso)
                .await
                .unwrap();
            let mode = std::fs::metadata(&iso).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
            assert_eq!(names.len(), 1, "nothing but the seed is left: {names:?}");
        }
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
