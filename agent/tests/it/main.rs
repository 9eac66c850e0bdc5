//! The agent without a VM: bad requests, its certificate, who reaches a guest, a recorded host that it looks at, a disk that it opens
//! exclusively, one that is full, and devices that it resets.
mod bad_requests;
mod certificate;
mod from_outside;
mod full_disk;
mod loop_disk;
mod partitions;
mod prepare;
mod recorded;
mod reset;
mod world;
