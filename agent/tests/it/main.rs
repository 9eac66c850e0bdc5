//! The agent without a VM: its certificate, and a recorded host that it looks at.
mod certificate;
mod h200_host;
