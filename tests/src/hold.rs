//! Holding an agent up exactly before a step of an operation.
use std::path::PathBuf;

use gpuaas_dev::lab::Lab;

/// An order to the agent of a lab host to stay before a step, for a minute at most.
pub struct Hold<'a> {
    lab: &'a Lab,
    /// The step.
    pub step: &'static str,
}

impl<'a> Hold<'a> {
    /// Gives the order.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn order(lab: &'a Lab, step: &'static str) -> Self {
        let folder = lab.agent_folder();
        std::fs::write(folder.join("hold-at.new"), format!("{step}:before")).expect("order");
        std::fs::rename(folder.join("hold-at.new"), folder.join("hold-at")).expect("order");
        Self { lab, step }
    }

    fn proof(&self) -> PathBuf {
        self.lab.agent_folder().join("held-at")
    }

    /// Whether the agent stays there.
    pub fn is_held(&self) -> bool {
        let text = std::fs::read_to_string(self.proof()).unwrap_or_default();
        text == format!("{}:before", self.step)
    }

    /// Lets the agent, which stays there, go on.
    ///
    /// # Panics
    /// When it does not stay there.
    pub fn let_go(self) {
        std::fs::remove_file(self.proof()).expect("the proof");
    }

    /// Takes back an order that was not carried out.
    pub fn take_back(self) {
        let _gone_is_fine = std::fs::remove_file(self.lab.agent_folder().join("hold-at"));
    }
}
