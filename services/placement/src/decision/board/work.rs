//! Room to work in while many nodes are looked at.
use super::Pick;

/// Choices that are kept at a time: as many as eight slots can be free or not.
const KNOWN: usize = 256;

/// Room to work in while fleets do not change: what was chosen of the same free slots before is not searched for again,
/// for most nodes of a fleet are alike.
#[derive(Debug)]
pub(in crate::decision) struct Work {
    open: Vec<u64>,
    known: [Option<(Asked, Option<Pick>)>; KNOWN],
}

/// What was searched for: layout, which is known by its address, usable slots and count.
type Asked = (usize, u64, u32);

impl Default for Work {
    fn default() -> Self {
        Self {
            open: Vec::new(),
            known: [None; KNOWN],
        }
    }
}

impl Work {
    /// What was chosen before, or is now by `search`, which is given room for groups.
    pub(super) fn once(
        &mut self,
        asked: Asked,
        search: impl FnOnce(&mut Vec<u64>) -> Option<Pick>,
    ) -> Option<Pick> {
        let (layout, usable, _) = asked;
        let place = (layout >> 7) as u64 ^ usable ^ usable >> 8;
        let place = place as usize % KNOWN;
        if let Some((of, pick)) = self.known[place]
            && of == asked
        {
            return pick;
        }
        let pick = search(&mut self.open);
        self.known[place] = Some((asked, pick));
        pick
    }
}
