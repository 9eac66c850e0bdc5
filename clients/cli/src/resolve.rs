//! References to resources: the id, a unique prefix of it, or the name.
use crate::failure::Failure;
use crate::suggest;

/// The id among `ids` that `given` is a unique prefix of; `list` is the command that lists them.
///
/// # Errors
/// Nothing matches, or several do.
pub fn unique<'a>(
    kind: &str,
    given: &str,
    ids: impl Iterator<Item = &'a str>,
    list: &str,
) -> Result<String, Failure> {
    let found: Vec<&str> = ids
        .filter(|id| !given.is_empty() && id.starts_with(given))
        .collect();
    match found.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(Failure::NotFound(format!(
            "no {kind} matches {given:?}; see: {list}"
        ))),
        several => Err(Failure::Usage(format!(
            "{given:?} matches {} {kind}s; enter more of the id",
            several.len()
        ))),
    }
}

/// [`unique`]; where nothing matches, with the nearest of these names as a suggestion.
///
/// # Errors
/// Those of [`unique`].
pub fn unique_or_near<'a>(
    kind: &str,
    given: &str,
    ids: impl Iterator<Item = &'a str>,
    names: impl Iterator<Item = &'a str>,
    list: &str,
) -> Result<String, Failure> {
    unique(kind, given, ids, list).map_err(|failure| match failure {
        Failure::NotFound(message) => {
            Failure::NotFound(suggest::with_nearest(message, given, names))
        }
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unique_beginning_is_enough() {
        let ids = || ["0193a-1", "0193b-2"].into_iter();
        assert_eq!(unique("node", "0193a", ids(), "l").expect("one"), "0193a-1");
        assert_eq!(
            unique("node", "0193", ids(), "l")
                .expect_err("two")
                .exit_code(),
            2
        );
        assert_eq!(
            unique("node", "x", ids(), "l")
                .expect_err("none")
                .exit_code(),
            3
        );
        assert_eq!(
            unique("node", "", ids(), "l")
                .expect_err("empty")
                .exit_code(),
            3
        );
    }
}
