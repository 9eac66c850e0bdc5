//! `--filter` and `--sort` of lists, in the language of the API.

/// What a list is narrowed to, and its order.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Selected {
    /// Filter expression, such as 'FIELD = VALUE AND FIELD2 = VALUE2'; an unknown field is refused with the list of valid
    /// fields.
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    /// Order, such as 'FIELD, FIELD2 desc'; an unknown field is refused with the list of valid fields.
    #[arg(long, value_name = "FIELDS")]
    sort: Option<String>,
}

impl Selected {
    /// Whether an empty list may have left something out.
    pub fn narrows(&self) -> bool {
        self.filter.is_some()
    }

    /// The filter of the request.
    pub fn filter(&self) -> String {
        self.filter.clone().unwrap_or_default()
    }

    /// The order of the request.
    pub fn order_by(&self) -> String {
        self.sort.clone().unwrap_or_default()
    }
}
