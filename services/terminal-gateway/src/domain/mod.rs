//! Pure parts: what is buffered and owed ([`flow`]), what messages mean ([`message`]), why sessions end ([`end`]),
//! how a recording is written ([`asciicast`]), what a session carries ([`kind`]).
pub(crate) mod asciicast;
pub(crate) mod end;
pub(crate) mod flow;
pub(crate) mod kind;
pub(crate) mod message;
pub(crate) mod ring;
