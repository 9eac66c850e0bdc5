//! Killing a process exactly at a step, and being sure that it was there.
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::until::until;

/// A kill that is armed: the process kills itself at the step and leaves proof.
pub struct Kill {
    order: PathBuf,
    proof: PathBuf,
    text: String,
}

impl Kill {
    /// Orders a process that watches `order` to kill itself at `text` ("provision.activate:before"); it leaves
    /// the same text in `proof`.
    ///
    /// # Panics
    /// When the order cannot be written.
    pub fn arm(order: &Path, proof: &Path, text: &str) -> Self {
        let _ = std::fs::remove_file(proof);
        let draft = order.with_extension("draft");
        std::fs::write(&draft, text).expect("write the order");
        std::fs::rename(&draft, order).expect("place the order");
        Self {
            order: order.to_owned(),
            proof: proof.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Waits until the process was killed at that very step.
    ///
    /// # Panics
    /// When it never was, or somewhere else.
    pub async fn hit(self, deadline: Duration) {
        let found = until(
            &format!("the kill at {}", self.text),
            deadline,
            async || {
                std::fs::read_to_string(&self.proof)
                    .ok()
                    .filter(|text| !text.is_empty())
            },
        )
        .await;
        assert_eq!(found.trim(), self.text, "killed at another step");
        let _ = std::fs::remove_file(&self.proof);
    }
}

impl Drop for Kill {
    fn drop(&mut self) {
        // an order that was not carried out must not hit the next test
        let _ = std::fs::remove_file(&self.order);
    }
}
