//! The agent without a VM: its certificate, a recorded host that it looks at, and a disk that it claims.
mod bad_requests;
mod certificate;
mod loop_disk;
mod partitions;
mod prepare;
mod recorded;
