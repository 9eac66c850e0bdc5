//! Chance, so that the hosts of a fleet do not call as one.
/// A number from 0 to 1 by chance, that hosts do not call as one.
pub fn chance() -> f64 {
    let mut drawn = [0; 4];
    // without a source of chance all pauses are the same, which is no fault of the host
    let _either_way = getrandom::fill(&mut drawn);
    f64::from(u32::from_ne_bytes(drawn)) / f64::from(u32::MAX)
}
