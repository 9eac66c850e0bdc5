//! What the resident memory of a process is: its own, its program's, or that of the libraries that it has loaded.
use gpuaas_dev::process::Process;

/// Resident memory in MiB.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Memory {
    /// Written by the process itself: the heap, stacks, and what the loader changed of the files.
    pub anonymous: f64,
    /// Pages of its program's file, which the kernel can drop and read again.
    pub program: f64,
    /// Pages of all other files.
    pub libraries: f64,
    pub threads: usize,
}

impl Memory {
    /// As it is now; nothing when the process is gone.
    pub fn of(process: &Process) -> Option<Self> {
        let folder = format!("/proc/{}", process.pid);
        let smaps = std::fs::read_to_string(format!("{folder}/smaps")).ok()?;
        let program = std::fs::read_link(format!("{folder}/exe")).ok()?;
        let threads = std::fs::read_dir(format!("{folder}/task")).ok()?.count();
        Some(Self {
            threads,
            ..parts(&smaps, &program.to_string_lossy())
        })
    }

    /// All of it.
    pub fn all(&self) -> f64 {
        self.anonymous + self.program + self.libraries
    }
}

/// The parts by the mappings of `smaps`. A page that a process has written is its own, whatever file it was of.
fn parts(smaps: &str, program: &str) -> Memory {
    let mut found = Memory::default();
    let (mut is_program, mut resident) = (false, 0.0);
    for line in smaps.lines() {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let Some(name) = name.strip_suffix(':') else {
            // the head of a mapping: addresses, rights, offset, device, inode, path
            is_program = line.split_whitespace().nth(5) == Some(program);
            continue;
        };
        let kibibytes = rest
            .split_whitespace()
            .next()
            .and_then(|text| text.parse::<f64>().ok());
        let mebibytes = kibibytes.unwrap_or_default() / 1024.0;
        match name {
            "Rss" => resident = mebibytes,
            "Anonymous" => {
                found.anonymous += mebibytes;
                let of_file = resident - mebibytes;
                if is_program {
                    found.program += of_file;
                } else {
                    found.libraries += of_file;
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_the_process_own_whatever_file_it_was_of() {
        let smaps = "\
55e0d0-55e0d1 r-xp 00000000 fe:00 12 /usr/bin/agent
Size:               4096 kB
Rss:                2048 kB
Pss:                2048 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
55e0d1-55e0d2 rw-p 00000000 fe:00 12 /usr/bin/agent
Rss:                1024 kB
Anonymous:           512 kB
55e0d2-55e0d3 rw-p 00000000 00:00 0 [heap]
Rss:                3072 kB
Anonymous:          3072 kB
7f0000-7f0001 r-xp 00000000 fe:00 13 /usr/lib/libvirt.so.0
Rss:                1024 kB
Anonymous:             0 kB
";
        let found = parts(smaps, "/usr/bin/agent");
        assert_eq!(
            (found.anonymous, found.program, found.libraries),
            (3.5, 2.5, 1.0)
        );
        assert_eq!(found.all(), 7.0);
    }

    #[test]
    fn this_process_has_memory_of_each_kind() {
        let pid = i32::try_from(std::process::id()).expect("a pid");
        let found = Memory::of(&Process::of(pid).expect("we run")).expect("we run");
        assert!(found.anonymous > 0.05 && found.program > 0.05, "{found:?}");
        assert!(found.threads > 0);
    }
}
