//! `--filter` and `--sort` of lists, in the language of the API.

/// What a list is narrowed to, and its order.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Selected {
    /// Only what this is true of, for example 'state = active AND labels.team = "ml"'; an unknown field is refused with the
    /// fields that there are.
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    /// Order, for example 'sku, create_time desc'.
    #[arg(long, value_name = "FIELDS")]
    sort: Option<String>,
}

impl Selected {
    /// Whether an empty list may have left something out.
    pub fn narrows(&self) -> bool {
        self.filter.is_some()
    }

    /// As parameters of the request.
    pub fn query(&self) -> Vec<(&'static str, String)> {
        super::given([
            ("filter", self.filter.clone()),
            ("order_by", self.sort.clone()),
        ])
    }
}
