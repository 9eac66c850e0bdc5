//! How much one caller may ask for at once and in a time, and who a caller is to the network.
pub mod admission;
pub mod peer;
pub mod rates;
pub(crate) mod shares;
pub mod tenant;
pub mod terminals;
