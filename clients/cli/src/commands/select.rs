//! `--filter` and `--sort` of lists, in the language of the API, and `--etag` of changes of what was read.

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

/// What a change is made to.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Read {
    /// Etag of what you have read (`--output json` shows it): the change is refused when somebody has made another one since
    /// [default: not checked].
    #[arg(
        long,
        value_name = "ETAG",
        default_value = "",
        hide_default_value = true
    )]
    pub etag: String,
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
