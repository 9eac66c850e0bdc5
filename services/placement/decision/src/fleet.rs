//! Nodes compiled for decisions, in the order of their ids.
use uuid::Uuid;

use super::alike::Alike;
use super::board::{Board, LACKS_IMAGE, NOT_OWN, Shared};
use super::causes::{Causes, Found, nobody_has};
use super::rooms::Rooms;
use super::{CandidateNode, Choice, Request, Rules};
use crate::UnschedulableReason;
use crate::model::SlotClass;

/// Candidate nodes, compiled once and asked often.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    /// By id.
    pub(super) boards: Vec<Board>,
    shared: Shared,
    rooms: Rooms,
}

/// The nodes on which a request fits, best first, and what removes the others.
#[derive(Debug)]
pub struct Ranking {
    rules: Rules,
    request: Request,
    /// Rank in the upper half, place in the fleet in the lower: of equal ones the lower id comes first (B-37).
    order: Vec<u64>,
    removed: Causes,
    /// Nodes on which it fits or that something keeps away.
    pool: usize,
}

/// Nodes that are looked at first where a few could not be told to be the best.
const MOST_LIKELY: usize = 32;

/// What becomes of nodes that are alike.
enum Outcome {
    /// With this rank.
    Fits(u32),
    /// What keeps how many GPUs of each of so many nodes away.
    Removed { found: Found, nodes: u32 },
}

/// What becomes of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Node.
    pub node_id: Uuid,
    /// The best choice on it, or what keeps how many of its GPUs away.
    pub outcome: Result<Choice, Vec<UnschedulableReason>>,
}

impl Ranking {
    /// Nodes on which it fits.
    #[must_use]
    pub fn fits(&self) -> usize {
        self.order.len()
    }

    /// How many of them, the first ones, have slots for it that are reserved for the project that asks.
    #[must_use]
    pub fn own(&self) -> usize {
        let own = |key: &u64| key >> 32 < u64::from(NOT_OWN);
        self.order.partition_point(own)
    }

    /// Nodes that have GPUs of the class on sale, free or not.
    #[must_use]
    pub fn pool(&self) -> usize {
        self.pool
    }

    /// Per cause, the nodes it removes and their GPUs; one cause without numbers when there is no such node.
    #[must_use]
    pub fn removed(&self) -> Vec<UnschedulableReason> {
        if self.pool == 0 {
            return vec![nobody_has("GPUs of this class")];
        }
        self.removed.reasons(self.request.gpu_count)
    }
}

impl Fleet {
    /// Compiles nodes.
    #[must_use]
    pub fn of(nodes: &[CandidateNode]) -> Self {
        let mut shared = Shared::default();
        let mut boards: Vec<Board> = nodes
            .iter()
            .map(|node| Board::of(node, &mut shared))
            .collect();
        boards.sort_by_key(|board| board.id);
        let mut rooms = Rooms::default();
        boards.iter().for_each(|board| rooms.add(board));
        Self {
            boards,
            shared,
            rooms,
        }
    }

    /// Adds a node, or replaces what was known of it.
    pub fn put(&mut self, node: &CandidateNode) {
        let board = Board::of(node, &mut self.shared);
        match self.boards.binary_search_by_key(&node.id, |board| board.id) {
            Ok(place) => {
                let before = std::mem::replace(&mut self.boards[place], board);
                self.rooms.remove(&before);
                self.rooms.add(&self.boards[place]);
            }
            Err(place) => {
                self.rooms.add(&board);
                self.boards.insert(place, board);
            }
        }
    }

    /// Forgets a node.
    pub fn remove(&mut self, id: Uuid) {
        if let Ok(place) = self.boards.binary_search_by_key(&id, |board| board.id) {
            let before = self.boards.remove(place);
            self.rooms.remove(&before);
        }
    }

    /// A few nodes that have room for a request, the best of all among them, and of equal ones those next to `at`: a fleet of
    /// its own, whose size does not grow with this one. Where none of them fits, others may.
    #[must_use]
    pub fn likely(&self, rules: &Rules, request: &Request, at: u32) -> Self {
        let count = u32::try_from(request.gpu_count).unwrap_or(u32::MAX);
        let of = (request.slot_class, count);
        let likely = self
            .rooms
            .likely(of, rules.packing_strategy, rules.project, at);
        let few = self.these(likely.ids);
        let best = few.rank(rules, request).order.first().map(|key| key >> 32);
        let others_are_worse = match best {
            Some(rank) if rank < u64::from(NOT_OWN) => true,
            Some(rank) => {
                let rank = rank as u32 & !(NOT_OWN | LACKS_IMAGE);
                !likely.others_reserved && likely.others.is_none_or(|least| rank <= least)
            }
            None => likely.others.is_none() && !likely.others_reserved,
        };
        if others_are_worse {
            return few;
        }
        // what was looked at is out of the question for this request, by the host's free memory or for its image
        let ranking = self.rank(rules, request);
        self.these(self.nodes(&ranking).take(MOST_LIKELY))
    }

    /// These nodes as a fleet of its own.
    fn these(&self, ids: impl IntoIterator<Item = Uuid>) -> Self {
        let boards = ids.into_iter().filter_map(|id| self.board(id)).cloned();
        let mut boards: Vec<Board> = boards.collect();
        boards.sort_unstable_by_key(|board| board.id);
        Self {
            boards,
            ..Self::default()
        }
    }

    /// The largest count of a class that can be sold of one node, whoever asks.
    #[must_use]
    pub fn largest(&self, class: SlotClass) -> u32 {
        self.rooms.largest(class)
    }

    fn board(&self, id: Uuid) -> Option<&Board> {
        let place = self.boards.binary_search_by_key(&id, |board| board.id);
        place.ok().map(|place| &self.boards[place])
    }

    /// Nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.boards.len()
    }

    /// No nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.boards.is_empty()
    }

    /// Ranks the nodes for a request.
    #[must_use]
    pub fn rank(&self, rules: &Rules, request: &Request) -> Ranking {
        let mut order = Vec::with_capacity(self.boards.len());
        let mut outcome = |board: &Board| match board.best(rules, request) {
            Some(pick) => Outcome::Fits(board.rank(rules.packing_strategy, request, &pick)),
            None => Outcome::Removed {
                found: board.found(rules, request).into_owned(),
                nodes: 0,
            },
        };
        let mut outcomes = Alike::new(rules);
        for (place, board) in self.boards.iter().enumerate() {
            match outcomes.of(board, &mut outcome) {
                Outcome::Fits(rank) => order.push(u64::from(*rank) << 32 | place as u64),
                Outcome::Removed { nodes, .. } => *nodes += 1,
            }
        }
        order.sort_unstable();
        let mut removed = Causes::default();
        let mut pool = order.len();
        for outcome in outcomes.into_all() {
            if let Outcome::Removed { found, nodes } = outcome {
                removed.add_of(&found, nodes);
                pool += if found.is_empty() { 0 } else { nodes as usize };
            }
        }
        Ranking {
            rules: rules.clone(),
            request: request.clone(),
            order,
            removed,
            pool,
        }
    }

    /// The nodes of a ranking of this fleet, best first.
    pub fn nodes<'a>(&'a self, ranking: &'a Ranking) -> impl Iterator<Item = Uuid> + 'a {
        let place = |key: &u64| (key & u64::from(u32::MAX)) as usize;
        let boards = ranking
            .order
            .iter()
            .map(move |key| self.boards.get(place(key)));
        boards.flatten().map(|board| board.id)
    }

    /// The choices of a ranking of this fleet, best first.
    pub fn choices<'a>(&'a self, ranking: &'a Ranking) -> impl Iterator<Item = Choice> + 'a {
        ranking.order.iter().filter_map(move |key| {
            let board = self.boards.get((key & u64::from(u32::MAX)) as usize)?;
            let pick = board.best(&ranking.rules, &ranking.request)?;
            Some(board.choice(&ranking.request, &pick))
        })
    }

    /// The choice of a ranking of this fleet on a node, and the version of the node it was made on.
    #[must_use]
    pub fn choice_on(&self, ranking: &Ranking, node_id: Uuid) -> Option<(Choice, &str)> {
        let board = self.board(node_id)?;
        let pick = board.best(&ranking.rules, &ranking.request)?;
        Some((board.choice(&ranking.request, &pick), &*board.version))
    }

    /// The nodes that could be sold as a whole with exactly so many GPUs of the class.
    pub fn whole<'a>(
        &'a self,
        rules: &'a Rules,
        request: &'a Request,
    ) -> impl Iterator<Item = Uuid> + 'a {
        let fit = self.boards.iter();
        fit.filter(|board| board.fits_whole(rules, request))
            .map(|board| board.id)
    }

    /// What becomes of each node of the pool, at most `limit` of them: those with a choice in the order of their rank, then the
    /// others by id.
    #[must_use]
    pub fn verdicts(&self, ranking: &Ranking, limit: usize) -> Vec<Verdict> {
        let (rules, request) = (&ranking.rules, &ranking.request);
        let others = self.boards.iter().filter_map(|board| {
            if board.best(rules, request).is_some() {
                return None;
            }
            let found = board.found(rules, request);
            if found.is_empty() {
                return None;
            }
            let mut causes = Causes::default();
            causes.add(&found);
            Some(Verdict {
                node_id: board.id,
                outcome: Err(causes.reasons(request.gpu_count)),
            })
        });
        self.choices(ranking)
            .map(|choice| Verdict {
                node_id: choice.node_id,
                outcome: Ok(choice),
            })
            .chain(others)
            .take(limit)
            .collect()
    }

    /// How many such requests of somebody for whom nothing is reserved fit at the same time, filled in the order of the
    /// policy.
    #[must_use]
    pub fn count_fits(&self, request: &Request) -> u32 {
        self.count_fits_by(&Rules::default(), request)
    }

    /// How many fit under rules.
    #[must_use]
    pub fn count_fits_by(&self, rules: &Rules, request: &Request) -> u32 {
        let mut count = |board: &Board| board.count_fits(rules, request);
        let mut counts = Alike::new(rules);
        self.boards
            .iter()
            .map(|board| *counts.of(board, &mut count))
            .sum()
    }
}
