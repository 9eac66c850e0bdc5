//! Status and driver strategy of an image, and the limits of a new one.
use gpuaas_proto::gpuaas::common::v1::DriverStrategy as WireStrategy;
use gpuaas_proto::gpuaas::images::v1::ImageStatus;

/// Seconds a guest may take to a working login, when nothing else is said.
pub const DEFAULT_BOOT_TIMEOUT_SECONDS: u32 = 600;
/// Most seconds that can be asked for.
pub const MAX_BOOT_TIMEOUT_SECONDS: u32 = 3600;
/// Most SKUs an image can name.
pub const MAX_SKUS: usize = 32;
/// Most characters of a display name.
pub const MAX_DISPLAY_NAME: usize = 120;

/// Whether users can choose an image (E-07).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// They cannot.
    Disabled,
    /// Published with a known digest (CON-10).
    Active,
}

impl Status {
    /// As stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Active => "active",
        }
    }

    /// From the store.
    pub fn from_stored(text: &str) -> Option<Self> {
        [Self::Disabled, Self::Active]
            .into_iter()
            .find(|status| status.as_str() == text)
    }

    /// From the wire; `None` for the unspecified value.
    pub fn from_wire(status: ImageStatus) -> Option<Self> {
        match status {
            ImageStatus::Unspecified => None,
            ImageStatus::Disabled => Some(Self::Disabled),
            ImageStatus::Active => Some(Self::Active),
        }
    }

    /// To the wire.
    pub fn to_wire(self) -> ImageStatus {
        match self {
            Self::Disabled => ImageStatus::Disabled,
            Self::Active => ImageStatus::Active,
        }
    }
}

/// How a guest gets its GPU drivers (E-10, E-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverStrategy {
    /// It needs none.
    None,
    /// cloud-init installs them.
    CloudInit,
    /// They are in the image.
    Preinstalled,
}

impl DriverStrategy {
    const ALL: [Self; 3] = [Self::None, Self::CloudInit, Self::Preinstalled];

    /// As stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::CloudInit => "cloud_init",
            Self::Preinstalled => "preinstalled",
        }
    }

    /// From the store.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|strategy| strategy.as_str() == text)
    }

    /// From the wire; `None` for the unspecified value.
    pub fn from_wire(strategy: WireStrategy) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|known| known.to_wire() == strategy)
    }

    /// To the wire.
    pub fn to_wire(self) -> WireStrategy {
        match self {
            Self::None => WireStrategy::None,
            Self::CloudInit => WireStrategy::CloudInit,
            Self::Preinstalled => WireStrategy::Preinstalled,
        }
    }
}
