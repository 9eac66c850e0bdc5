//! `order_by`: fields with commas between them, each with `desc` after it or not.
use super::{Catalog, MAX_ORDER, Term};
use crate::error::{Error, Result};

pub(super) fn parse(catalog: &'static Catalog, text: &str) -> Result<Vec<Term>> {
    let wrong = |rule: String| Error::invalid("order_by", rule);
    let mut order: Vec<Term> = Vec::new();
    if text.is_empty() {
        return Ok(order);
    }
    for part in text.split(',') {
        let mut words = part.split_whitespace();
        let name = words.next().unwrap_or_default();
        let sortable = catalog.find(name).filter(|field| field.sortable);
        let Some(field) = sortable else {
            let all = catalog.names(|field| field.sortable);
            return Err(wrong(format!(
                "there is no order by {name:?}; there are {all}"
            )));
        };
        let descending = match (words.next(), words.next()) {
            (None | Some("asc"), None) => false,
            (Some("desc"), None) => true,
            _ => return Err(wrong(format!("{name} may be followed by asc or desc only"))),
        };
        if order.iter().any(|term| term.field.name == name) {
            return Err(wrong(format!("names {name} twice")));
        }
        if order.len() == MAX_ORDER {
            return Err(wrong(format!("must be at most {MAX_ORDER} fields")));
        }
        order.push(Term { field, descending });
    }
    Ok(order)
}
