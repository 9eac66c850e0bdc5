//! Values of the wire that more than one part reads: types that cannot hold anything but what their name says.
use sha2::{Digest as _, Sha256};

/// A value that is not what its type says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {rule}")]
pub struct ParseError {
    /// Kind of value, or the field it stands in.
    pub what: &'static str,
    /// What it must look like.
    pub rule: &'static str,
}

impl ParseError {
    /// The same rule, broken in this field.
    #[must_use]
    pub fn of(self, what: &'static str) -> Self {
        Self { what, ..self }
    }
}

/// Whether a byte is a hex digit in lower case.
#[must_use]
pub fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Whether a text is the link that a disk has by its EUI-64 or NGUID, the same for as long as the namespace lives.
#[must_use]
pub fn is_nvme_link(text: &str) -> bool {
    text.strip_prefix("/dev/disk/by-id/nvme-eui.")
        .is_some_and(|eui| {
            (16..=32).contains(&eui.len()) && eui.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
}

/// The id of a lab host's disk, from `lab-disk:` and that id.
#[must_use]
pub fn lab_disk(text: &str) -> Option<uuid::Uuid> {
    let id = text.strip_prefix("lab-disk:").filter(|id| id.len() == 36)?;
    uuid::Uuid::try_parse(id).ok().filter(|id| !id.is_nil())
}

/// Defines a value that is text of a certain form: its name, what it is called in errors, its rule, and a function that
/// gives the text back as it is written, or nothing.
#[macro_export]
macro_rules! text_value {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $parse:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// What the text must be.
            pub const RULE: &str = $rule;

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::value::ParseError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let parse: fn(&str) -> Option<String> = $parse;
                parse(text).map(Self).ok_or($crate::value::ParseError {
                    what: $what,
                    rule: Self::RULE,
                })
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_value!(
    /// A DNS label: the name of an allocation, a region or a guest's host.
    DnsLabel,
    "name",
    "a DNS label: 1 to 63 characters of a-z, 0-9 and '-', with no '-' first or last",
    |text| {
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let valid = (1..=63).contains(&text.len())
            && text.bytes().all(legal)
            && !text.starts_with('-')
            && !text.ends_with('-');
        valid.then(|| text.to_owned())
    }
);

text_value!(
    /// Name of an image, for example "ubuntu-24.04-h200-base" (E-08, E-09). It names files on nodes, so it holds no path
    /// separator; files that are named by their digest lie beside them.
    ImageSlug,
    "image",
    "1 to 63 lower-case letters, digits, '.' or '-', starting and ending with a letter or digit, and not starting with \"sha256-\"",
    |text| {
        let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let legal = |b: u8| alphanumeric(b) || b == b'.' || b == b'-';
        let valid = (1..=63).contains(&text.len())
            && text.bytes().all(legal)
            && text.bytes().next().is_some_and(alphanumeric)
            && text.bytes().next_back().is_some_and(alphanumeric)
            && !text.starts_with("sha256-");
        valid.then(|| text.to_owned())
    }
);

text_value!(
    /// A SHA-256 digest: of an image or a manifest.
    Digest,
    "digest",
    "\"sha256:\" and 64 lower-case hex digits",
    |text| {
        let hex = text.strip_prefix(Digest::PREFIX)?;
        (hex.len() == 64 && hex.bytes().all(is_lower_hex)).then(|| text.to_owned())
    }
);

impl Digest {
    const PREFIX: &str = "sha256:";

    /// From the 32 bytes of a finished hash.
    #[must_use]
    pub fn of_bytes(hash: &[u8]) -> Self {
        Self(format!("{}{}", Self::PREFIX, hex::encode(hash)))
    }

    /// The hex digits.
    #[must_use]
    pub fn hex(&self) -> &str {
        &self.0[Self::PREFIX.len()..]
    }
}

text_value!(
    /// A unicast MAC address, lower case with colons.
    Mac,
    "mac",
    "a unicast MAC address like 52:54:00:10:00:10",
    |text| {
        let text = text.to_ascii_lowercase();
        let octets: Option<Vec<u8>> = text
            .split(':')
            .map(|octet| {
                (octet.len() == 2 && octet.bytes().all(is_lower_hex))
                    .then(|| u8::from_str_radix(octet, 16).ok())
                    .flatten()
            })
            .collect();
        let octets = octets.filter(|octets| octets.len() == 6 && octets.iter().any(|o| *o != 0))?;
        (octets[0] & 1 == 0).then_some(text)
    }
);

impl Mac {
    /// Identity of the port that the vNIC with this address has on an Open vSwitch bridge, as `external_ids:iface-id` of its
    /// interface. Ports come and go with VMs and have names of their allocations; this one stays the slot's.
    #[must_use]
    pub fn ovs_interface_id(&self) -> uuid::Uuid {
        let hash = Sha256::digest(format!("gpuaas ovs port of {}", self.0));
        let mut bytes = uuid::Bytes::default();
        bytes.copy_from_slice(&hash[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }
}

text_value!(
    /// A PCI address with domain, lower case.
    PciAddress,
    "pci address",
    "a PCI address like 0000:1b:00.0",
    |text| {
        let text = text.to_ascii_lowercase();
        let shape = |(index, byte): (usize, u8)| match index {
            4 | 7 => byte == b':',
            // a bus has 32 devices of 8 functions
            8 => matches!(byte, b'0' | b'1'),
            10 => byte == b'.',
            11 => (b'0'..=b'7').contains(&byte),
            _ => is_lower_hex(byte),
        };
        (text.len() == 12 && text.bytes().enumerate().all(shape)).then_some(text)
    }
);

impl PciAddress {
    /// Domain, bus, device and function, in hex digits.
    #[must_use]
    pub fn parts(&self) -> (&str, &str, &str, &str) {
        (
            &self.0[0..4],
            &self.0[5..7],
            &self.0[8..10],
            &self.0[11..12],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lower_case_sha256_is_a_digest() {
        let hex = "0123456789abcdef".repeat(4);
        let digest: Digest = format!("sha256:{hex}").parse().expect("a digest");
        assert_eq!(digest.hex(), hex);
        assert_eq!(Digest::of_bytes(&[0xab; 32]).hex(), "ab".repeat(32));
        let upper = hex.to_uppercase();
        for bad in [
            hex.clone(),
            format!("sha512:{hex}"),
            format!("sha256:{upper}"),
            format!("sha256:{hex}0"),
            format!("sha256:{}", &hex[1..]),
            "sha256:ABC".to_owned(),
            String::new(),
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }

    /// With those of E-08 and E-09; CON-07: the former naming, in capitals, is none.
    #[test]
    fn image_slugs_are_file_names_at_most() {
        let longest = "a".repeat(63);
        for good in [
            "lab-mini",
            "ubuntu-24.04-h200-cuda",
            "ubuntu-24.04-h200-base",
            "a",
            "0",
            "sha256",
            longest.as_str(),
        ] {
            assert!(good.parse::<ImageSlug>().is_ok(), "{good}");
        }
        let too_long = "a".repeat(64);
        for bad in [
            "",
            "-a",
            "a-",
            ".",
            "..",
            "a/b",
            "A",
            "a_b",
            "H200-ubuntu-24.04-gpuaas-slice",
            "a b",
            "ä",
            "sha256-0123",
            too_long.as_str(),
        ] {
            assert!(bad.parse::<ImageSlug>().is_err(), "{bad}");
        }
    }

    #[test]
    fn disks_are_named_by_their_eui_or_a_labs_id() {
        let link = |eui: &str| format!("/dev/disk/by-id/nvme-eui.{eui}");
        assert!(is_nvme_link(&link("0025385A4140C6E5")));
        assert!(is_nvme_link(&link(&"0f".repeat(16))));
        for bad in ["0025385a4140c6e", "0025385a4140c6eg", "", &"0f".repeat(17)] {
            assert!(!is_nvme_link(&link(bad)), "{bad}");
        }
        assert!(!is_nvme_link("/dev/nvme0n1"));
        let id = "lab-disk:6f1c1f4e-2d7c-4f0e-9d6a-0d0f6f1b2c3d";
        assert!(lab_disk(id).is_some());
        assert_eq!(lab_disk(&format!("lab-disk:{}", uuid::Uuid::nil())), None);
        assert_eq!(lab_disk(&id.replace('-', "")), None);
    }

    #[test]
    fn addresses_are_parsed_and_written_in_lower_case() {
        assert!("01:00:00:00:00:00".parse::<Mac>().is_err(), "multicast");
        assert!("00:00:00:00:00:00".parse::<Mac>().is_err(), "nobody's");
        assert!("52:54:00:10:00".parse::<Mac>().is_err());
        assert!("52:54:00:10:0:010".parse::<Mac>().is_err());
        assert!("52:54:00:10:00:+1".parse::<Mac>().is_err());
        let mac: Mac = "52:54:00:10:00:AF".parse().expect("a MAC address");
        assert_eq!(mac.as_str(), "52:54:00:10:00:af");
        for bad in [
            "0000:1b:00.8",
            "0000:1b:20.0",
            "1b:00.0",
            "0000:1b:00:0",
            "0000:1g:00.0",
        ] {
            assert!(bad.parse::<PciAddress>().is_err(), "{bad}");
        }
        let pci: PciAddress = "0000:1B:1f.0".parse().expect("a PCI address");
        assert_eq!(pci.parts(), ("0000", "1b", "1f", "0"));
    }

    #[test]
    fn a_68_the_port_of_a_slot_is_the_same_every_time_and_no_other_slots() {
        let port = |mac: &str| {
            mac.parse::<Mac>()
                .expect("a MAC address")
                .ovs_interface_id()
        };
        let first = port("52:54:00:10:00:af");
        assert_eq!(first, port("52:54:00:10:00:AF"));
        assert_ne!(first, port("52:54:00:10:00:ae"));
        // what hosts have been given does not change with a release
        assert_eq!(first.to_string(), "7eb897e0-d120-8462-bcd8-e922de7d4f03");
    }

    #[test]
    fn a_label_is_a_host_name_without_dots() {
        let longest = "a".repeat(63);
        for good in ["a", "lab-1", "0", longest.as_str()] {
            assert!(good.parse::<DnsLabel>().is_ok(), "{good}");
        }
        let too_long = "a".repeat(64);
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "ä", too_long.as_str()] {
            assert!(bad.parse::<DnsLabel>().is_err(), "{bad}");
        }
        let error = "".parse::<DnsLabel>().expect_err("empty").of("hostname");
        assert!(
            error
                .to_string()
                .starts_with("hostname must be a DNS label")
        );
    }
}
