//! What a caller selects of a node's comparison, and in which order: allocations and differences by one filter.
use std::collections::BTreeMap;

use gpuaas_common::Error;
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use gpuaas_common::time::from_proto_time;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use serde_json::{Value, json};
use sqlx::PgConnection;

static CATALOG: Catalog = Catalog {
    fields: &[
        Field::sortable(
            "subject",
            Kind::OneOf(&[
                "allocation",
                "binding",
                "disk",
                "network",
                "hold",
                "partition",
            ]),
            "listed.subject",
        ),
        Field::sortable("kind", Kind::Text, "listed.kind"),
        Field::sortable(
            "verdict",
            Kind::OneOf(&["agrees", "adopt", "finish", "undo", "report"]),
            "listed.verdict",
        ),
        Field::new(
            "correction",
            Kind::OneOf(&[
                "unspecified",
                "adopt",
                "finish",
                "undo",
                "report",
                "repair_slot",
                "deactivate_partition",
            ]),
            "listed.correction",
        ),
        Field::new("allocation_id", Kind::Id, "listed.allocation_id"),
        Field::new("slot_id", Kind::Id, "listed.slot_id"),
        Field::new("slot_index", Kind::Number, "listed.slot_index"),
        Field::new("since", Kind::Time, "listed.since"),
    ],
    key: Field::new("number", Kind::Number, "listed.number"),
    order: "",
};

/// Which of those that were found is selected.
#[derive(sqlx::FromRow)]
struct Number {
    number: i64,
}

/// A filter and an order, as they were asked for.
pub(super) struct Wish(Option<Selection>);

impl Wish {
    /// Reads them, before any host is asked.
    ///
    /// # Errors
    /// Naming what of them cannot be understood.
    pub(super) fn parse(request: &pb::CompareNodeRequest) -> Result<Self, Error> {
        let selection = Selection::parse(&CATALOG, &request.filter, &request.order_by)?;
        let is_any = request.filter.is_empty() && request.order_by.is_empty();
        Ok(Self((!is_any).then_some(selection)))
    }

    /// What of a comparison is selected, in order.
    ///
    /// # Errors
    /// Those of the database.
    pub(super) async fn apply(
        &self,
        conn: &mut PgConnection,
        found: pb::NodeComparison,
    ) -> Result<pb::NodeComparison, Error> {
        let Some(selection) = &self.0 else {
            return Ok(found);
        };
        let allocations = found.rows.iter().map(of_allocation);
        let listed = allocations.chain(found.differences.iter().map(of_difference));
        let listed: Vec<Value> = listed
            .enumerate()
            .map(|(number, mut one)| {
                one["number"] = json!(number);
                one
            })
            .collect();
        let wanted = Wanted {
            page_token: "",
            size: i64::try_from(listed.len()).unwrap_or(i64::MAX - 1),
            query: &[],
        };
        let statement = Statement::new(&[
            "SELECT * FROM jsonb_to_recordset($1) AS found
                (number bigint, subject text, kind text, verdict text, correction text, allocation_id uuid, slot_id uuid,
                 slot_index bigint, since timestamptz)",
        ])
        .bind(Value::Array(listed));
        let (chosen, _) = selection.page::<Number>(conn, statement, wanted).await?;
        let count = found.rows.len();
        let mut rows: BTreeMap<usize, _> = found.rows.into_iter().enumerate().collect();
        let differences = found.differences.into_iter().enumerate();
        let mut differences: BTreeMap<usize, _> =
            differences.map(|(at, one)| (count + at, one)).collect();
        let mut selected = pb::NodeComparison {
            node_id: found.node_id,
            ..pb::NodeComparison::default()
        };
        for number in chosen
            .into_iter()
            .filter_map(|one| usize::try_from(one.number).ok())
        {
            selected.rows.extend(rows.remove(&number));
            selected.differences.extend(differences.remove(&number));
        }
        Ok(selected)
    }
}

/// The API's word for an enum value.
fn word(name: &str, prefix: &str) -> String {
    name.trim_start_matches(prefix).to_lowercase()
}

fn verdict(verdict: pb::ComparisonVerdict) -> String {
    word(verdict.as_str_name(), "COMPARISON_VERDICT_")
}

fn correction(correction: pb::ComparisonCorrection) -> String {
    word(correction.as_str_name(), "COMPARISON_CORRECTION_")
}

fn of_allocation(row: &pb::NodeComparisonRow) -> Value {
    json!({
        "subject": "allocation", "kind": "", "verdict": verdict(row.verdict()),
        "correction": correction(row.correction()), "allocation_id": row.allocation_id,
    })
}

fn of_difference(one: &pb::NodeDifference) -> Value {
    let given = |id: &str| (!id.is_empty()).then(|| id.to_owned());
    let since = one.since.as_ref().and_then(from_proto_time);
    let slot_id = given(&one.slot_id);
    let slot_index = slot_id.is_some().then_some(one.slot_index);
    json!({
        "subject": word(one.subject().as_str_name(), "NODE_DIFFERENCE_SUBJECT_"), "kind": one.kind,
        "verdict": verdict(one.verdict()), "correction": correction(one.correction()),
        "allocation_id": given(&one.allocation_id), "slot_id": slot_id, "slot_index": slot_index, "since": since.map(|at| at.to_string()),
    })
}
