//! Judging a host's wipe evidence. The host proves, the control plane checks again: a slot is allocated again only
//! when both agree (P2, C-10, C-11).

use gpuaas_proto::gpuaas::agent::v1::WipeEvidence;

/// The control plane's record of a slot that should have been wiped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedWipe {
    pub slot_id: String,
    /// Generation of the claim or repair.
    pub generation: u64,
    /// Wipe policy that was approved for the slot (D-75).
    pub policy: String,
    /// Stable identity of the disk.
    pub disk_identity: String,
    /// Approved size of the disk in bytes; 0 when approval did not know it.
    pub disk_bytes: u64,
}

/// How much of a disk must have been read back (C-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thoroughness {
    /// Disks up to this size must have been read back completely, in bytes.
    pub full_bytes: u64,
    /// At least this much of a larger disk, in bytes.
    pub sample_bytes: u64,
}

impl Thoroughness {
    fn wanted(self, disk_bytes: u64) -> u64 {
        if disk_bytes <= self.full_bytes {
            disk_bytes
        } else {
            self.sample_bytes.min(disk_bytes)
        }
    }
}

/// Finds the proof of one slot and judges it.
///
/// # Errors
/// Why it proves nothing, for operators.
pub fn judge<'a>(
    expected: &ExpectedWipe,
    thoroughness: Thoroughness,
    evidence: &'a [WipeEvidence],
) -> Result<&'a WipeEvidence, String> {
    let mut of_slot = evidence
        .iter()
        .filter(|proof| proof.slot_id == expected.slot_id);
    let Some(proof) = of_slot.next() else {
        return Err("the host gave no evidence for the slot".into());
    };
    if of_slot.next().is_some() {
        return Err("the host gave more than one evidence for the slot".into());
    }
    let generation = proof.token.as_ref().map(|token| token.slot_generation);
    if generation != Some(expected.generation) {
        return Err(format!(
            "evidence is of generation {generation:?}, not {}",
            expected.generation
        ));
    }
    if proof.method != expected.policy {
        return Err(format!(
            "wiped by {:?}, the policy is {:?}",
            proof.method, expected.policy
        ));
    }
    if proof.disk_identity != expected.disk_identity {
        return Err("evidence is of another disk".into());
    }
    if proof.disk_bytes == 0
        || (expected.disk_bytes != 0 && proof.disk_bytes != expected.disk_bytes)
    {
        return Err(format!(
            "disk has {} bytes, approved were {}",
            proof.disk_bytes, expected.disk_bytes
        ));
    }
    let wanted = thoroughness.wanted(proof.disk_bytes);
    if proof.verified_bytes < wanted || proof.verified_bytes > proof.disk_bytes {
        return Err(format!(
            "{} of {} bytes were read back as zero, wanted {wanted}",
            proof.verified_bytes, proof.disk_bytes
        ));
    }
    if !proof.no_signatures {
        return Err("a signature or a partition table is left on the disk".into());
    }
    Ok(proof)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuaas_proto::gpuaas::agent::v1::FencingToken;

    const ALL: Thoroughness = Thoroughness {
        full_bytes: 1 << 30,
        sample_bytes: 0,
    };

    #[test]
    fn a_large_disk_is_proven_by_samples_of_a_least_size() {
        let limits = Thoroughness {
            full_bytes: 512,
            sample_bytes: 256,
        };
        let read = |verified_bytes| {
            let proof = WipeEvidence {
                verified_bytes,
                ..proof()
            };
            judge(&expected(), limits, &[proof]).is_ok()
        };
        assert!(read(1024) && read(256));
        assert!(!read(255) && !read(0) && !read(1025));
    }

    fn expected() -> ExpectedWipe {
        ExpectedWipe {
            slot_id: "s".into(),
            generation: 3,
            policy: "blkdiscard".into(),
            disk_identity: "lab-disk:1".into(),
            disk_bytes: 1024,
        }
    }

    fn proof() -> WipeEvidence {
        WipeEvidence {
            slot_id: "s".into(),
            token: Some(FencingToken {
                cell_epoch: 1,
                slot_generation: 3,
                workflow_epoch: 9,
            }),
            method: "blkdiscard".into(),
            disk_identity: "lab-disk:1".into(),
            disk_bytes: 1024,
            verified_bytes: 1024,
            no_signatures: true,
            ..WipeEvidence::default()
        }
    }

    #[test]
    fn c_10_c_11_only_a_whole_proof_of_this_claim_counts() {
        assert!(judge(&expected(), ALL, &[proof()]).is_ok());
        let other_slot = WipeEvidence {
            slot_id: "t".into(),
            ..proof()
        };
        assert!(judge(&expected(), ALL, &[other_slot.clone(), proof()]).is_ok());
        let old = FencingToken {
            slot_generation: 2,
            ..FencingToken::default()
        };
        for (why, evidence) in [
            ("none", vec![]),
            ("another slot", vec![other_slot]),
            ("two", vec![proof(), proof()]),
            (
                "old generation",
                vec![WipeEvidence {
                    token: Some(old),
                    ..proof()
                }],
            ),
            (
                "no token",
                vec![WipeEvidence {
                    token: None,
                    ..proof()
                }],
            ),
            (
                "another method",
                vec![WipeEvidence {
                    method: "nvme_format".into(),
                    ..proof()
                }],
            ),
            (
                "another disk",
                vec![WipeEvidence {
                    disk_identity: "lab-disk:2".into(),
                    ..proof()
                }],
            ),
            (
                "smaller disk",
                vec![WipeEvidence {
                    disk_bytes: 512,
                    verified_bytes: 512,
                    ..proof()
                }],
            ),
            (
                "empty disk",
                vec![WipeEvidence {
                    disk_bytes: 0,
                    verified_bytes: 0,
                    ..proof()
                }],
            ),
            (
                "half verified",
                vec![WipeEvidence {
                    verified_bytes: 512,
                    ..proof()
                }],
            ),
            (
                "signature left",
                vec![WipeEvidence {
                    no_signatures: false,
                    ..proof()
                }],
            ),
        ] {
            assert!(judge(&expected(), ALL, &evidence).is_err(), "{why}");
        }
    }
}
