//! A compiled node as bare metal: whether it is, and whether it could be allocated so.
use super::CompiledNode;
use crate::model::SlotClass;
use crate::{Request, Rules};

impl CompiledNode {
    /// Held as bare metal.
    pub(crate) fn is_baremetal_allocated(&self) -> bool {
        self.exclusively_held
    }

    /// Nobody has any of it.
    pub(crate) fn is_clean(&self) -> bool {
        self.clean && !self.exclusively_held
    }

    /// The only class of its slots, if all of them are of one.
    pub(crate) fn class(&self) -> Option<SlotClass> {
        let mut classes = SlotClass::ALL
            .iter()
            .filter(|class| self.views[**class as usize].is_some());
        classes.next().filter(|_| classes.next().is_none()).copied()
    }

    /// Every slot of it is free, so that it could be allocated as bare metal.
    pub(crate) fn is_free_for_baremetal(&self) -> bool {
        let all_usable = || {
            let mut views = self.views.iter().flatten();
            views.all(|view| view.usable == view.layout.all)
        };
        self.is_clean() && self.can_change() && self.class().is_some() && all_usable()
    }

    /// It could be allocated as bare metal now, as [`crate::judge_baremetal`] decides for nodes that are not compiled. Only
    /// nodes for slices are compiled; one in mode baremetal is judged there.
    pub(crate) fn fits_baremetal(&self, rules: &Rules, request: &Request) -> bool {
        let open = rules.allow(self.id)
            && !rules.queued_ahead.contains(&self.id)
            && self.enabled
            && self.schedulable
            && !self.exclusively_held;
        let of_one_class = self.class() == Some(request.slot_class);
        let own = self.own(rules, request.slot_class);
        let all_free = |view: &super::ClassView| {
            let all = view.layout.all;
            view.taken == 0
                && view.open(rules) | own == all
                && all.count_ones() == request.gpu_count.get()
        };
        open && of_one_class && self.view(request).is_some_and(all_free)
    }
}
