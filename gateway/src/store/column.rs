//! Columns whose text the database restricts.
use sqlx::Row as _;
use sqlx::postgres::PgRow;

/// A column whose text the database restricts.
pub(super) fn decode<T>(
    row: &PgRow,
    column: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> sqlx::Result<T> {
    let text: String = row.try_get(column)?;
    parse(&text).ok_or_else(|| unknown(column, &text))
}

/// The same where there may be none.
pub(super) fn decode_optional<T>(
    row: &PgRow,
    column: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> sqlx::Result<Option<T>> {
    let text: Option<String> = row.try_get(column)?;
    text.map(|text| parse(&text).ok_or_else(|| unknown(column, &text)))
        .transpose()
}

/// A text that no value has.
pub(super) fn unknown(column: &str, text: &str) -> sqlx::Error {
    sqlx::Error::ColumnDecode {
        index: column.to_owned(),
        source: format!("unknown value {text:?}").into(),
    }
}
