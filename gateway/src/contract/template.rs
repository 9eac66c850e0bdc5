//! Path templates of `google.api.http`: literals, `{field.path}` variables and a `:verb` at the end.
//!
//! Multi-segment wildcards (`**`, `{name=shelves/*}`) are not part of this API's style and are refused
//! when the routes are built, so a template that would be served wrongly never starts.

/// Field paths with the decoded text that a request's path has for them.
pub type PathVariables = Vec<(String, String)>;

/// One path segment of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Matches itself.
    Literal(String),
    /// Matches one non-empty segment and binds it to a field path such as `region.code`.
    Variable(String),
}

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The segments, in order.
    pub segments: Vec<Segment>,
    /// The custom verb after the last `:`, for example "release".
    pub verb: Option<String>,
}

/// A raw (still percent-encoded) path of a request, taken apart once for all templates.
#[derive(Clone, Debug)]
pub struct RawPath<'a> {
    parts: Vec<&'a str>,
    verb: Option<&'a str>,
}

impl<'a> RawPath<'a> {
    /// The parts of an absolute path.
    pub fn of(path: &'a str) -> Option<Self> {
        let (path, verb) = split_verb(path.strip_prefix('/')?);
        Some(Self {
            parts: path.split('/').collect(),
            verb,
        })
    }
}

/// Why a template cannot be served.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("path template {template:?}: {problem}")]
pub struct TemplateError {
    template: String,
    problem: &'static str,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// When it is not absolute, has an empty segment or uses a wildcard.
    pub fn parse(template: &str) -> Result<Self, TemplateError> {
        let fail = |problem| TemplateError {
            template: template.to_owned(),
            problem,
        };
        let path = template
            .strip_prefix('/')
            .ok_or_else(|| fail("must begin with '/'"))?;
        let (path, verb) = split_verb(path);
        if verb.is_some_and(str::is_empty) {
            return Err(fail("has an empty verb"));
        }
        let mut segments = Vec::new();
        for part in path.split('/') {
            let segment = if let Some(inner) = part.strip_prefix('{') {
                let field = inner
                    .strip_suffix('}')
                    .ok_or_else(|| fail("has an unclosed variable"))?;
                let plain = !field.is_empty()
                    && field.chars().all(|c| {
                        c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '.'
                    });
                if !plain {
                    return Err(fail("has a variable that is not a plain field path"));
                }
                Segment::Variable(field.to_owned())
            } else if part.is_empty() || part.contains(['*', '{', '}']) {
                return Err(fail("has an empty segment or a wildcard"));
            } else {
                Segment::Literal(part.to_owned())
            };
            segments.push(segment);
        }
        Ok(Self {
            segments,
            verb: verb.map(str::to_owned),
        })
    }

    /// Matches a request's path; answers the bound variables, decoded.
    pub fn matches(&self, path: &RawPath<'_>) -> Option<PathVariables> {
        if path.parts.len() != self.segments.len() || path.verb != self.verb.as_deref() {
            return None;
        }
        let both = || self.segments.iter().zip(&path.parts);
        let fits = both().all(|(segment, part)| match segment {
            Segment::Literal(literal) => literal == part,
            Segment::Variable(_) => !part.is_empty(),
        });
        if !fits {
            return None;
        }
        both()
            .filter_map(|(segment, part)| match segment {
                Segment::Variable(field) => Some((field, part)),
                Segment::Literal(_) => None,
            })
            .map(|(field, part)| Some((field.clone(), percent_decode(part)?)))
            .collect()
    }

    /// The names of the variables, in order.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|s| match s {
            Segment::Variable(field) => Some(field.as_str()),
            Segment::Literal(_) => None,
        })
    }
}

/// Splits `…/last:verb` at the last colon of the last segment.
fn split_verb(path: &str) -> (&str, Option<&str>) {
    let last_segment = path.rfind('/').map_or(0, |i| i + 1);
    match path[last_segment..].rfind(':') {
        Some(colon) => (
            &path[..last_segment + colon],
            Some(&path[last_segment + colon + 1..]),
        ),
        None => (path, None),
    }
}

/// Decodes `%XX`; `None` when the result is not UTF-8, has a bad escape or a control character.
pub fn percent_decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] == b'%' {
            let hex = text.get(i + 1..i + 3)?;
            out.push(u8::from_str_radix(hex, 16).ok()?);
            i += 3;
        } else {
            out.push(bytes[i]);
            i += 1;
        }
    }
    String::from_utf8(out)
        .ok()
        .filter(|s| !s.chars().any(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_table() {
        type Bound = Option<&'static [(&'static str, &'static str)]>;
        let table: &[(&str, &str, Bound)] = &[
            ("/api/v1/allocations", "/api/v1/allocations", Some(&[])),
            ("/api/v1/allocations", "/api/v1/allocations/", None),
            (
                "/api/v1/allocations/{allocation_id}",
                "/api/v1/allocations/a1",
                Some(&[("allocation_id", "a1")]),
            ),
            (
                "/api/v1/allocations/{allocation_id}",
                "/api/v1/allocations/a1:release",
                None,
            ),
            (
                "/api/v1/allocations/{allocation_id}",
                "/api/v1/allocations/a%3Ab",
                Some(&[("allocation_id", "a:b")]),
            ),
            (
                "/api/v1/allocations/{allocation_id}:release",
                "/api/v1/allocations/a1:release",
                Some(&[("allocation_id", "a1")]),
            ),
            (
                "/api/v1/allocations/{allocation_id}:release",
                "/api/v1/allocations/:release",
                None,
            ),
            (
                "/api/v1/allocations/{allocation_id}:release",
                "/api/v1/allocations/a1:stop",
                None,
            ),
            (
                "/api/v1/admin/regions/{region.code}",
                "/api/v1/admin/regions/eu%2Fwest",
                Some(&[("region.code", "eu/west")]),
            ),
            ("/a/{x}/b/{y}", "/a/1/b/2", Some(&[("x", "1"), ("y", "2")])),
            ("/a/{x}/b/{y}", "/a/1/b", None),
            ("/a/{x}", "/a/%zz", None),
            ("/a/{x}", "/a/%00", None),
            ("/a/{x}", "/a/%ff", None),
        ];
        for (template, path, expected) in table {
            let got = Template::parse(template)
                .expect("valid template")
                .matches(&RawPath::of(path).expect("absolute"));
            let expected = expected.map(|e| {
                e.iter()
                    .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                    .collect::<Vec<_>>()
            });
            assert_eq!(got, expected, "{template} against {path}");
        }
    }

    #[test]
    fn unservable_templates_are_refused() {
        for bad in [
            "api",
            "/a//b",
            "/a/*",
            "/a/{x=b/*}",
            "/a/{x",
            "/a/{}",
            "/a:",
        ] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
    }
}
