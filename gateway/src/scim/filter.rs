//! Filters (RFC 7644, 3.4.2.2): read into a tree, and decided on one value of an attribute.
use serde_json::{Map, Value};

use super::error::{Result, ScimError};
use super::schema::without_schema;

/// Most bytes of a filter.
const MAX_BYTES: usize = 4096;
/// Deepest nesting.
const MAX_DEPTH: usize = 16;
/// Bytes of a text that cost as much to compare with as one more comparison.
const BYTES_OF_A_COMPARISON: usize = 64;

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Contains.
    Co,
    /// Starts with.
    Sw,
    /// Ends with.
    Ew,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
}

/// A filter. Attributes are in lower case and without their schema.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Both.
    And(Box<Filter>, Box<Filter>),
    /// One of them.
    Or(Box<Filter>, Box<Filter>),
    /// It does not hold.
    Not(Box<Filter>),
    /// An attribute has a value.
    Present(String),
    /// An attribute has a value that compares so.
    Compare(String, Operator, Value),
    /// One of an attribute's values is such.
    Within(String, Box<Filter>),
}

/// Why a text is no filter.
pub fn wrong(why: impl std::fmt::Display) -> ScimError {
    ScimError::bad(
        "invalidFilter",
        format!("The filter is not understood: {why}."),
    )
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// `invalidFilter`.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_BYTES {
            return Err(wrong(format!("it is longer than {MAX_BYTES} bytes")));
        }
        let mut reader = Reader {
            tokens: tokens(text)?,
            at: 0,
        };
        let filter = reader.any(0)?;
        match reader.peek() {
            None => Ok(filter),
            Some(more) => Err(wrong(format!("{more:?} is too much"))),
        }
    }

    /// Whether it holds for a value with attributes.
    pub fn holds(&self, value: &Map<String, Value>) -> bool {
        match self {
            Self::And(one, other) => one.holds(value) && other.holds(value),
            Self::Or(one, other) => one.holds(value) || other.holds(value),
            Self::Not(inner) => !inner.holds(value),
            Self::Present(name) => found(value, name).is_some(),
            Self::Compare(name, operator, with) => compares(found(value, name), *operator, with),
            Self::Within(..) => false,
        }
    }

    /// Most comparisons that deciding on one value takes. One with a long text counts as several.
    pub fn comparisons(&self) -> usize {
        match self {
            Self::And(one, other) | Self::Or(one, other) => one.comparisons() + other.comparisons(),
            Self::Not(inner) | Self::Within(_, inner) => inner.comparisons(),
            Self::Compare(_, _, Value::String(with)) => 1 + with.len() / BYTES_OF_A_COMPARISON,
            Self::Present(_) | Self::Compare(..) => 1,
        }
    }

    /// What must be equal for it to hold, where nothing else would do.
    pub fn equalities(&self) -> Option<Map<String, Value>> {
        match self {
            Self::And(one, other) => {
                let mut all = one.equalities()?;
                all.extend(other.equalities()?);
                Some(all)
            }
            Self::Compare(name, Operator::Eq, value) => {
                Some(Map::from_iter([(name.clone(), value.clone())]))
            }
            _ => None,
        }
    }
}

fn found<'a>(value: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let mut all = value.iter();
    all.find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

fn compares(found: Option<&Value>, operator: Operator, with: &Value) -> bool {
    if let (Some(Value::String(found)), Value::String(with)) = (found, with) {
        let (found, with) = (found.to_lowercase(), with.to_lowercase());
        return match operator {
            Operator::Eq => found == with,
            Operator::Ne => found != with,
            Operator::Co => found.contains(&with),
            Operator::Sw => found.starts_with(&with),
            Operator::Ew => found.ends_with(&with),
            Operator::Gt => found > with,
            Operator::Ge => found >= with,
            Operator::Lt => found < with,
            Operator::Le => found <= with,
        };
    }
    let equal = found.unwrap_or(&Value::Null) == with;
    match operator {
        Operator::Eq => equal,
        Operator::Ne => !equal,
        _ => false,
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Open,
    Close,
    OpenValue,
    CloseValue,
    Word(String),
    Literal(Value),
}

fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '[' => (Token::OpenValue, 1),
            ']' => (Token::CloseValue, 1),
            '"' => {
                let end = end_of_string(rest).ok_or_else(|| wrong("a quote is not closed"))?;
                let value = serde_json::from_str(&rest[..end]);
                let value: Value = value.map_err(|_| wrong("a string is not JSON"))?;
                (Token::Literal(value), end)
            }
            _ => {
                let end = rest
                    .find(|c: char| c.is_whitespace() || "()[]\"".contains(c))
                    .unwrap_or(rest.len());
                (word(&rest[..end]), end)
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn word(text: &str) -> Token {
    // as Entra ID writes them
    match text.to_ascii_lowercase().as_str() {
        "true" => return Token::Literal(true.into()),
        "false" => return Token::Literal(false.into()),
        "null" => return Token::Literal(Value::Null),
        _ => {}
    }
    match serde_json::from_str::<serde_json::Number>(text) {
        Ok(number) => Token::Literal(number.into()),
        Err(_) => Token::Word(text.to_owned()),
    }
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Result<Token> {
        let token = self
            .peek()
            .cloned()
            .ok_or_else(|| wrong("it ends too early"))?;
        self.at += 1;
        Ok(token)
    }

    fn takes(&mut self, word: &str) -> bool {
        let is =
            matches!(self.peek(), Some(Token::Word(found)) if found.eq_ignore_ascii_case(word));
        self.at += usize::from(is);
        is
    }

    fn any(&mut self, depth: usize) -> Result<Filter> {
        let mut filter = self.all(depth)?;
        while self.takes("or") {
            filter = Filter::Or(Box::new(filter), Box::new(self.all(depth)?));
        }
        Ok(filter)
    }

    fn all(&mut self, depth: usize) -> Result<Filter> {
        let mut filter = self.one(depth)?;
        while self.takes("and") {
            filter = Filter::And(Box::new(filter), Box::new(self.one(depth)?));
        }
        Ok(filter)
    }

    fn one(&mut self, depth: usize) -> Result<Filter> {
        if depth > MAX_DEPTH {
            return Err(wrong(format!("it is nested more than {MAX_DEPTH} deep")));
        }
        if self.takes("not") {
            if self.next()? != Token::Open {
                return Err(wrong("\"not\" comes before a parenthesis"));
            }
            return Ok(Filter::Not(Box::new(self.closed(depth, &Token::Close)?)));
        }
        let name = match self.next()? {
            Token::Open => return self.closed(depth, &Token::Close),
            Token::Word(name) => attribute(&name)?,
            other => return Err(wrong(format!("{other:?} is no attribute"))),
        };
        if self.peek() == Some(&Token::OpenValue) {
            self.at += 1;
            let inner = self.closed(depth, &Token::CloseValue)?;
            return Ok(Filter::Within(name, Box::new(inner)));
        }
        let Token::Word(operator) = self.next()? else {
            return Err(wrong(format!("{name} needs an operator")));
        };
        if operator.eq_ignore_ascii_case("pr") {
            return Ok(Filter::Present(name));
        }
        let operator = match operator.to_ascii_lowercase().as_str() {
            "eq" => Operator::Eq,
            "ne" => Operator::Ne,
            "co" => Operator::Co,
            "sw" => Operator::Sw,
            "ew" => Operator::Ew,
            "gt" => Operator::Gt,
            "ge" => Operator::Ge,
            "lt" => Operator::Lt,
            "le" => Operator::Le,
            _ => return Err(wrong(format!("{operator:?} is no operator"))),
        };
        match self.next()? {
            Token::Literal(value) => Ok(Filter::Compare(name, operator, value)),
            _ => Err(wrong(format!("{name} is compared with no value"))),
        }
    }

    fn closed(&mut self, depth: usize, with: &Token) -> Result<Filter> {
        let inner = self.any(depth + 1)?;
        if self.next()? == *with {
            return Ok(inner);
        }
        Err(wrong("a parenthesis or bracket is not closed"))
    }
}

fn attribute(name: &str) -> Result<String> {
    let plain = without_schema(name).unwrap_or(name);
    let good = plain
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '$'));
    if good && !plain.is_empty() {
        return Ok(plain.to_ascii_lowercase());
    }
    Err(wrong(format!("{name:?} is no attribute")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn filters_are_read_with_their_precedence() {
        let eq = |name: &str, value: Value| Filter::Compare(name.to_owned(), Operator::Eq, value);
        let (a, b, c) = (
            eq("a", json!("x")),
            eq("b", json!(true)),
            Filter::Present("c".to_owned()),
        );
        let boxed = |filter: &Filter| Box::new(filter.clone());
        for (text, expected) in [
            ("a eq \"x\"", a.clone()),
            ("A EQ \"x\"", a.clone()),
            (
                "urn:ietf:params:scim:schemas:core:2.0:User:a eq \"x\"",
                a.clone(),
            ),
            (
                "a eq \"x\" or b eq True and c pr",
                Filter::Or(boxed(&a), Box::new(Filter::And(boxed(&b), boxed(&c)))),
            ),
            (
                "(a eq \"x\" or b eq true)and not(c pr)",
                Filter::And(
                    Box::new(Filter::Or(boxed(&a), boxed(&b))),
                    Box::new(Filter::Not(boxed(&c))),
                ),
            ),
            ("e[a eq \"x\"]", Filter::Within("e".to_owned(), boxed(&a))),
            (r#"a eq "a\"]) b""#, eq("a", json!("a\"]) b"))),
        ] {
            assert_eq!(Filter::parse(text).expect(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused_and_ends() {
        let deep = "(".repeat(100_000);
        let nested = format!("{}a pr{}", "(".repeat(40), ")".repeat(40));
        for bad in [
            "",
            "a",
            "a eq",
            "a eq \"x",
            "a is \"x\"",
            "eq \"x\"",
            "a eq b",
            "(a pr",
            "a pr)",
            "a[b pr",
            "not a pr",
            "a pr b pr",
            "a pr and",
            "ä pr",
            "; drop",
            "\"a\" eq \"b\"",
            deep.as_str(),
            nested.as_str(),
        ] {
            assert!(Filter::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_filter_holds_for_values() {
        let value = json!({ "type": "Work", "value": "a@example.com", "primary": true });
        let value = value.as_object().expect("an object");
        for (text, holds) in [
            ("type eq \"work\"", true),
            ("type ne \"work\"", false),
            ("value sw \"A@\" and value ew \".com\"", true),
            ("value co \"b@\" or primary eq true", true),
            ("not (primary eq true)", false),
            ("display pr", false),
            ("type gt \"v\" and type le \"work\"", true),
            ("display eq null", true),
        ] {
            let filter = Filter::parse(text).expect(text);
            assert_eq!(filter.holds(value), holds, "{text}");
        }
        let known = Filter::parse("type eq \"work\" and primary eq true").expect("good");
        assert_eq!(
            Value::from(known.equalities().expect("equal")),
            json!({ "type": "work", "primary": true })
        );
    }

    #[test]
    fn a_filter_counts_its_comparisons() {
        let long = format!("a eq \"{}\"", "x".repeat(10 * BYTES_OF_A_COMPARISON));
        for (text, expected) in [
            ("a pr", 1),
            ("a eq true", 1),
            ("a eq \"x\"", 1),
            ("a eq \"x\" or b pr and not (c ne 1)", 3),
            ("e[a eq \"x\" and b pr]", 2),
            (long.as_str(), 11),
        ] {
            let filter = Filter::parse(text).expect(text);
            assert_eq!(filter.comparisons(), expected, "{text}");
        }
    }
}
