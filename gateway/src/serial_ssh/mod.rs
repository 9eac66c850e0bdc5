//! The serial log of an allocation by SSH: `ssh -p PORT ALLOCATION-ID@HOST`, with a key that the reader has registered. It needs
//! no client of ours, and no VM that runs.
//!
//! It is one more way to read the stream of `ReadSerialLog`, and decides nothing itself: who a key belongs to is looked up here
//! ([`sign_in`]), then the same policies are asked, the same denial is put on record, the same limits count, and the same call
//! goes to the allocation service as over HTTP. The stream ends with the reader's access, and with the key.
//!
//! *Nobody learns what others have.* Every key that is offered is accepted until it has signed, so a public key alone tells
//! nothing. A name that is no id, an allocation that is foreign or does not exist, and a key that nobody has registered get
//! one refusal, after one time. Whoever has registered the key is told what else is in the way, as over HTTP.
//!
//! *A key of several people.* Each may have registered it, also somebody who only knows the public key: all are asked in the
//! order in which they did, and the first who may read is who reads. What is denied to one of them is on that one's record.
//!
//! *Nothing but the log goes through.* One session of a connection; no commands, no files, no forwarding, no agent, no X11. What
//! the reader types is thrown away, but for Ctrl-C and Ctrl-D, which end it.
mod connection;
mod cuttable;
mod listener;
mod login;
mod screen;
mod settings;
mod sign_in;

pub use listener::{SerialSsh, serve};
pub use settings::SerialSshSettings;
