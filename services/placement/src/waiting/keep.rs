//! What is kept for those before in line.
use std::collections::{BTreeSet, HashMap};

use sqlx::PgConnection;
use uuid::Uuid;

use super::line::{Member, Waiting, in_order, load};
use super::order::Ticket;
use super::priority;
use crate::availability::decision_request;
use crate::catalog::{self, Sku};
use crate::decision::{self, CandidateNode, Fleet, Rules, decide_by};
use crate::model::{Health, SlotClass, SlotStatus};
use crate::reserve::{Policy, Request, constraint_rules, still_meant};
use crate::{Error, Result, candidates};

/// What is before a request in its line.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// What they ask for, each once.
    asks: Vec<Ask>,
    /// Nodes that are kept for one of them.
    kept: BTreeSet<Uuid>,
    /// Somebody waits in the line, before or behind.
    waits: bool,
}

/// What somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ask {
    request: decision::Request,
    rules: Rules,
}

impl Ahead {
    /// Who is before a request: one that waits has its place, one that does not has the place it would get.
    pub(crate) async fn of(
        conn: &mut PgConnection,
        policy: Policy,
        request: &Request,
        slot_class: SlotClass,
    ) -> Result<Self> {
        if request.before_line {
            return Ok(Self::default());
        }
        let (line, now) = load(conn, &request.region_code, slot_class).await?;
        if line.is_empty() {
            return Ok(Self::default());
        }
        let (line, own) = match request.ticket {
            Some(ticket) => (line, ticket),
            None => (with_new(conn, request, line, now).await?, Uuid::nil()),
        };
        let before = line
            .into_iter()
            .take_while(|waiting| waiting.ticket.id != own);
        let before = able(conn, policy, before.collect()).await?;
        let tickets: Vec<Uuid> = before.iter().map(|waiting| waiting.ticket.id).collect();
        let kept: Vec<Uuid> = sqlx::query_scalar(
            "SELECT node_id FROM kept_nodes WHERE region_code = $1 AND slot_class = $2 AND ticket = ANY ($3)",
        )
        .bind(&request.region_code)
        .bind(slot_class.as_str())
        .bind(tickets)
        .fetch_all(&mut *conn)
        .await?;
        let mut ahead = Self {
            asks: Vec::new(),
            kept: kept.into_iter().collect(),
            waits: true,
        };
        let mut skus = HashMap::new();
        for (place, waiting) in before.iter().enumerate() {
            // where one of a batch fits, the batch may still not: only the first batch holds others up
            if place > 0 && waiting.members.len() > 1 {
                continue;
            }
            for member in &waiting.members {
                let asked = ask(conn, policy, waiting.ticket.project_id, member, &mut skus).await?;
                ahead
                    .asks
                    .extend(asked.filter(|ask| !ahead.asks.contains(ask)));
            }
        }
        Ok(ahead)
    }

    /// The same as it is under a node's lock. Who joined an empty line since came later.
    pub(crate) async fn again(
        &self,
        conn: &mut PgConnection,
        policy: Policy,
        request: &Request,
        slot_class: SlotClass,
    ) -> Result<Self> {
        if self.waits {
            Self::of(conn, policy, request, slot_class).await
        } else {
            Ok(Self::default())
        }
    }

    /// The rules of a request, with the nodes that are not for it because somebody before it would fit there now.
    pub(crate) fn keep(&self, rules: &Rules, nodes: &[CandidateNode]) -> Rules {
        if self.waits {
            self.keep_in(rules, &Fleet::of(nodes))
        } else {
            rules.clone()
        }
    }

    /// The same of nodes that are compiled already.
    pub(crate) fn keep_in(&self, rules: &Rules, fleet: &Fleet) -> Rules {
        let mut rules = rules.clone();
        rules.kept.extend(&self.kept);
        for ask in &self.asks {
            let fit = fleet.rank(&ask.rules, &ask.request);
            rules
                .kept
                .extend(fleet.choices(&fit).map(|choice| choice.node_id));
        }
        rules
    }
}

/// The line as it would be with a new request, whose ticket is nil.
async fn with_new(
    conn: &mut PgConnection,
    request: &Request,
    mut line: Vec<Waiting>,
    now: jiff::Timestamp,
) -> Result<Vec<Waiting>> {
    let project_id = request.project_id;
    // a project that has nobody in line joins the ring at its end
    let turn = line
        .iter()
        .find(|waiting| waiting.ticket.project_id == project_id)
        .map_or(i64::MAX, |waiting| waiting.ticket.turn);
    let ticket = Ticket {
        id: Uuid::nil(),
        project_id,
        priority: priority::get(conn, project_id).await?,
        since: now,
        turn,
    };
    line.push(Waiting {
        ticket,
        members: Vec::new(),
        deadline: now,
        reason: String::new(),
    });
    Ok(in_order(line, now))
}

/// Those whose project's quota lets them be served now.
async fn able(conn: &mut PgConnection, policy: Policy, line: Vec<Waiting>) -> Result<Vec<Waiting>> {
    let pairs: BTreeSet<(Uuid, &str)> = line
        .iter()
        .flat_map(|waiting| {
            let project_id = waiting.ticket.project_id;
            waiting
                .members
                .iter()
                .map(move |member| (project_id, member.sku.as_str()))
        })
        .collect();
    let (projects, skus): (Vec<Uuid>, Vec<&str>) = pairs.into_iter().unzip();
    let left: Vec<(Uuid, String, i64)> = sqlx::query_as(
        "SELECT k.project_id, k.sku, coalesce(q.max_gpus::bigint, $3) - coalesce(
                (SELECT sum(a.gpu_count) FROM allocations a WHERE a.project_id = k.project_id AND a.sku = k.sku
                    AND a.state NOT IN ('requested', 'released', 'failed')), 0)
           FROM unnest($1::uuid[], $2::text[]) AS k (project_id, sku)
           LEFT JOIN quotas q ON q.project_id = k.project_id AND q.sku = k.sku",
    )
    .bind(projects)
    .bind(skus)
    .bind(i64::from(policy.default_quota_gpus))
    .fetch_all(conn)
    .await?;
    let left: HashMap<(Uuid, String), i64> = left
        .into_iter()
        .map(|(project_id, sku, gpus)| ((project_id, sku), gpus))
        .collect();
    Ok(line
        .into_iter()
        .filter(|waiting| {
            let mut asked: HashMap<&str, i64> = HashMap::new();
            for member in &waiting.members {
                *asked.entry(&member.sku).or_default() += i64::from(member.gpu_count);
            }
            asked.into_iter().all(|(sku, gpus)| {
                left.get(&(waiting.ticket.project_id, sku.to_owned()))
                    .is_some_and(|left| gpus <= *left)
            })
        })
        .collect())
}

/// What one allocation asks for; none when its constraints cannot be met any more.
async fn ask(
    conn: &mut PgConnection,
    policy: Policy,
    project_id: Uuid,
    member: &Member,
    skus: &mut HashMap<String, Sku>,
) -> Result<Option<Ask>> {
    if !skus.contains_key(&member.sku) {
        let sku = catalog::sku(conn, &member.sku).await?;
        skus.insert(member.sku.clone(), sku);
    }
    let request = Request {
        project_id,
        constraints: still_meant(conn, &member.constraints).await?,
        ..Request::default()
    };
    let rules = match constraint_rules(conn, policy.filling, &request).await {
        Err(Error::Invalid { .. }) => return Ok(None),
        other => other?,
    };
    Ok(Some(Ask {
        request: decision_request(&skus[&member.sku], member.gpu_count),
        rules,
    }))
}

/// Keeps nodes for the first of a line that does not fit, as few and as free ones as will do, and no others.
pub(crate) async fn settle(
    conn: &mut PgConnection,
    policy: Policy,
    region_code: &str,
    slot_class: SlotClass,
) -> Result<()> {
    // replicas settle a line one after the other
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 1))")
        .bind(format!("{region_code}\n{}", slot_class.as_str()))
        .execute(&mut *conn)
        .await?;
    let (line, _) = load(conn, region_code, slot_class).await?;
    let line = able(conn, policy, line).await?;
    let mut wanted = (Uuid::nil(), BTreeSet::new());
    if !line.is_empty() {
        let nodes = candidates::load(conn, region_code, None).await?;
        let mut skus = HashMap::new();
        for waiting in line {
            let mut asks = Vec::new();
            for member in &waiting.members {
                asks.extend(ask(conn, policy, waiting.ticket.project_id, member, &mut skus).await?);
            }
            if let Some(found) = nodes_for(&asks, &nodes) {
                wanted = (waiting.ticket.id, found);
                break;
            }
            // no node could ever hold it as things are: the next one is the first that can be helped
        }
    }
    let (ticket, nodes) = wanted;
    let nodes: Vec<Uuid> = nodes.into_iter().collect();
    sqlx::query(
        "DELETE FROM kept_nodes WHERE region_code = $1 AND slot_class = $2 AND NOT (ticket = $3 AND node_id = ANY ($4))",
    )
    .bind(region_code)
    .bind(slot_class.as_str())
    .bind(ticket)
    .bind(&nodes)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "INSERT INTO kept_nodes (region_code, slot_class, node_id, ticket)
         SELECT $1, $2, node_id, $3 FROM unnest($4::uuid[]) AS n (node_id) ON CONFLICT DO NOTHING",
    )
    .bind(region_code)
    .bind(slot_class.as_str())
    .bind(ticket)
    .bind(&nodes)
    .execute(conn)
    .await?;
    Ok(())
}

/// The nodes on which all of it would fit if everything there were free, those with most free slots first; none when
/// there are not enough such nodes.
fn nodes_for(asks: &[Ask], nodes: &[CandidateNode]) -> Option<BTreeSet<Uuid>> {
    let mut order: Vec<&CandidateNode> = nodes.iter().collect();
    let free = |node: &CandidateNode| node.slots.iter().filter(|slot| is_free(slot)).count();
    order.sort_by(|a, b| free(b).cmp(&free(a)).then(a.id.cmp(&b.id)));
    let mut spare: Vec<CandidateNode> = order.into_iter().map(emptied).collect();
    let mut chosen: Vec<CandidateNode> = Vec::new();
    for ask in asks {
        if let Some(node) = chosen.iter_mut().find(|node| takes(node, ask)) {
            take(node, ask);
            continue;
        }
        let place = spare.iter().position(|node| takes(node, ask))?;
        let mut node = spare.remove(place);
        take(&mut node, ask);
        chosen.push(node);
    }
    Some(chosen.into_iter().map(|node| node.id).collect())
}

fn is_free(slot: &decision::CandidateSlot) -> bool {
    slot.status == SlotStatus::Available
        && !slot.held
        && slot.reserved.is_none()
        && slot.health == Health::Healthy
}

/// The node as it is once everybody on it has gone.
fn emptied(node: &CandidateNode) -> CandidateNode {
    let mut node = node.clone();
    node.live_vms = 0;
    node.exclusively_held = false;
    // what the VMs there have comes back with them
    node.hugepages_1g_free = u32::MAX;
    for slot in &mut node.slots {
        if !matches!(slot.status, SlotStatus::Disabled | SlotStatus::Retired) {
            slot.status = SlotStatus::Available;
            slot.held = false;
        }
    }
    node
}

fn takes(node: &CandidateNode, ask: &Ask) -> bool {
    let only = std::slice::from_ref(node);
    !decide_by(&ask.rules, &ask.request, only).choices.is_empty()
}

fn take(node: &mut CandidateNode, ask: &Ask) {
    let only = std::slice::from_ref(node);
    let choice = decide_by(&ask.rules, &ask.request, only)
        .choices
        .into_iter()
        .next();
    node.live_vms += 1;
    for slot in &mut node.slots {
        if choice
            .as_ref()
            .is_some_and(|choice| choice.slot_ids.contains(&slot.id))
        {
            slot.status = SlotStatus::Reserved;
            slot.held = true;
        }
    }
}
