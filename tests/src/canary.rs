//! Tenant bytes: a guest writes them, a test looks for them in the file below the disk.
use std::io::Read as _;
use std::path::Path;

/// How often `needle` occurs in a file. A block of zeros, as most of a sparse file is, is told apart at once.
///
/// # Panics
/// When the file cannot be read, or the needle has a zero in it.
pub fn occurrences(file: &Path, needle: &[u8]) -> usize {
    const BLOCK: usize = 4 << 20;
    let mut source = std::fs::File::open(file).expect("open the backing file");
    assert!(!needle.contains(&0), "no zero is looked for");
    let zeros = vec![0u8; BLOCK];
    let mut window = Vec::with_capacity(BLOCK + needle.len());
    let mut count = 0;
    loop {
        let kept = window.len();
        let read = (&mut source)
            .take(BLOCK as u64)
            .read_to_end(&mut window)
            .expect("read the backing file");
        if read == 0 {
            return count;
        }
        if window[kept..] == zeros[..read] {
            // nothing that began before reaches into zeros
            window.clear();
            continue;
        }
        count += window
            .windows(needle.len())
            .filter(|w| *w == needle)
            .count();
        debug_assert!(kept < needle.len());
        // the end may hold the start of one more
        let keep = window.len().min(needle.len() - 1);
        window.drain(..window.len() - keep);
    }
}

/// Whether a file holds nothing but zeros.
///
/// # Panics
/// When the file cannot be read.
pub fn is_zero(file: &Path) -> bool {
    const BLOCK: usize = 4 << 20;
    let zeros = vec![0u8; BLOCK];
    let mut buffer = vec![0u8; BLOCK];
    let mut source = std::fs::File::open(file).expect("open the backing file");
    loop {
        match source.read(&mut buffer).expect("read the backing file") {
            0 => return true,
            read if buffer[..read] != zeros[..read] => return false,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_needle_across_blocks_once() {
        let dir = std::env::temp_dir().join(format!("gpuaas-canary-{}", std::process::id()));
        let mut bytes = vec![0u8; (4 << 20) + 100];
        let at = (4 << 20) - 3;
        bytes[at..at + 6].copy_from_slice(b"canary");
        std::fs::write(&dir, &bytes).expect("write");
        assert_eq!(occurrences(&dir, b"canary"), 1);
        assert!(!is_zero(&dir));
        let mut late = vec![0u8; 20 << 20];
        for at in [3, (8 << 20) - 6, (12 << 20) + 7, (20 << 20) - 6] {
            late[at..at + 6].copy_from_slice(b"canary");
        }
        std::fs::write(&dir, &late).expect("write");
        assert_eq!(occurrences(&dir, b"canary"), 4, "between blocks of zeros");
        std::fs::write(&dir, vec![0u8; 5 << 20]).expect("write");
        assert_eq!(occurrences(&dir, b"canary"), 0);
        assert!(is_zero(&dir));
        std::fs::remove_file(&dir).expect("remove");
    }
}
