//! GPU models and the slot classes that are made of them. A model that is not in the table is not offered as another.

/// Class of the slots that a model of NVIDIA makes; `None` for one that the platform does not know.
pub fn slot_class(model: u32) -> Option<&'static str> {
    match model {
        // H200 SXM5 141 GB
        0x2335 => Some("h200_sxm"),
        _ => None,
    }
}
