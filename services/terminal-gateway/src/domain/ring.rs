//! The last bytes of a stream, by offset, never more than its capacity.
use std::collections::VecDeque;

/// A ring. It grows with what is put in, up to its capacity.
#[derive(Debug)]
pub(crate) struct Ring {
    start: u64,
    bytes: VecDeque<u8>,
    capacity: usize,
}

impl Ring {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            start: 0,
            bytes: VecDeque::new(),
            capacity,
        }
    }

    /// Offset of the oldest byte that is kept.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Offset after the newest byte.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Puts bytes at the end; the oldest ones fall out.
    pub(crate) fn push(&mut self, data: &[u8]) {
        let kept = &data[data.len().saturating_sub(self.capacity)..];
        let overflow = (self.bytes.len() + kept.len()).saturating_sub(self.capacity);
        self.bytes.drain(..overflow);
        self.start += (overflow + data.len() - kept.len()) as u64;
        // doubling would go beyond the capacity
        let free = self.bytes.capacity() - self.bytes.len();
        if free < kept.len() {
            let needed = (self.bytes.capacity() * 2).clamp(4096, self.capacity.max(4096));
            let target = needed.max(self.bytes.len() + kept.len());
            self.bytes.reserve_exact(target - self.bytes.len());
        }
        self.bytes.extend(kept);
    }

    /// At most `most` bytes from `offset` on, which must be kept.
    pub(crate) fn read(&self, offset: u64, most: usize) -> Vec<u8> {
        let from = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let from = from.min(self.bytes.len());
        let to = from.saturating_add(most).min(self.bytes.len());
        let (front, back) = self.bytes.as_slices();
        let mut data = Vec::with_capacity(to - from);
        data.extend_from_slice(&front[from.min(front.len())..to.min(front.len())]);
        let back_from = from.saturating_sub(front.len());
        let back_to = to.saturating_sub(front.len());
        data.extend_from_slice(&back[back_from..back_to]);
        data
    }

    /// Bytes of memory it holds.
    #[cfg(test)]
    pub(crate) fn allocated(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_keeps_the_newest_bytes_within_its_capacity(pieces in prop::collection::vec(0usize..9000, 1..60)) {
            let mut ring = Ring::new(16 << 10);
            let mut all = Vec::new();
            for length in pieces {
                let piece: Vec<u8> = (0..length).map(|n| ((all.len() + n) % 251) as u8).collect();
                all.extend_from_slice(&piece);
                ring.push(&piece);
                prop_assert_eq!(ring.end(), all.len() as u64);
                prop_assert_eq!(ring.end() - ring.start(), all.len().min(16 << 10) as u64);
                prop_assert!(ring.allocated() <= 16 << 10);
                let from = ring.start() + (ring.end() - ring.start()) / 3;
                prop_assert_eq!(ring.read(from, usize::MAX), &all[from as usize..]);
                prop_assert_eq!(ring.read(ring.start(), 10), &all[ring.start() as usize..][..10.min(all.len())]);
            }
        }
    }

    #[test]
    fn an_idle_ring_is_small() {
        let mut ring = Ring::new(512 << 10);
        assert_eq!(ring.allocated(), 0);
        ring.push(b"$ ");
        assert!(ring.allocated() <= 4096);
    }
}
