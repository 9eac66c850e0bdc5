//! A filter's text to an expression over a catalog's fields.
use std::iter::Peekable;
use std::vec::IntoIter;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::words::{Placed, Word, Wrong, split};
use super::{
    Catalog, Comparison, Expression, Field, Kind, MAX_COMPARISONS, MAX_DEPTH, Operator, Requested,
    Value,
};
use crate::error::{Error, Result};

pub(super) fn filter(catalog: &'static Catalog, text: &str) -> Result<Option<Expression>> {
    let end = text.chars().count() + 1;
    let read = || {
        let words = split(text)?;
        if words.is_empty() {
            return Ok(None);
        }
        let mut parser = Parser {
            catalog,
            words: words.into_iter().peekable(),
            end,
            comparisons: 0,
        };
        let expression = parser.expression(0)?;
        match parser.words.next() {
            None => Ok(Some(expression)),
            Some((at, word)) => Err((at, format!("{} is not expected here", show(&word)))),
        }
    };
    read().map_err(|(at, rule): Wrong| {
        Error::invalid("filter", format!("is wrong at character {at}: {rule}"))
    })
}

struct Parser {
    catalog: &'static Catalog,
    words: Peekable<IntoIter<Placed>>,
    /// The place after the last character.
    end: usize,
    comparisons: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Joint {
    And,
    Or,
}

impl Parser {
    /// Comparisons that are all joined by AND, or all by OR.
    fn expression(&mut self, depth: usize) -> Result<Expression, Wrong> {
        let mut parts = vec![self.part(depth)?];
        let mut used = None;
        while let Some((at, joint)) = self.joint() {
            if used.is_some_and(|used| used != joint) {
                let rule = "AND and OR beside each other need parentheses";
                return Err((at, rule.to_owned()));
            }
            used = Some(joint);
            self.words.next();
            parts.push(self.part(depth)?);
        }
        Ok(match used {
            None => parts.swap_remove(0),
            Some(Joint::And) => Expression::All(parts),
            Some(Joint::Or) => Expression::Any(parts),
        })
    }

    fn joint(&mut self) -> Option<(usize, Joint)> {
        match self.words.peek()? {
            (at, Word::Bare(word)) if word == "AND" => Some((*at, Joint::And)),
            (at, Word::Bare(word)) if word == "OR" => Some((*at, Joint::Or)),
            _ => None,
        }
    }

    fn part(&mut self, depth: usize) -> Result<Expression, Wrong> {
        let (at, word) = self.next("a field")?;
        if depth >= MAX_DEPTH && (word == Word::Open || word == Word::Bare("NOT".to_owned())) {
            return Err((at, format!("nests deeper than {MAX_DEPTH}")));
        }
        match word {
            Word::Open => {
                let inner = self.expression(depth + 1)?;
                match self.next("a closing parenthesis")? {
                    (_, Word::Close) => Ok(inner),
                    (at, word) => Err((
                        at,
                        format!("{} stands where AND, OR or ) belongs", show(&word)),
                    )),
                }
            }
            Word::Bare(word) if word == "NOT" => {
                let inner = self.part(depth + 1)?;
                Ok(Expression::Not(Box::new(inner)))
            }
            Word::Bare(name) => self.comparison(at, &name),
            other => Err((at, format!("{} stands where a field belongs", show(&other)))),
        }
    }

    fn comparison(&mut self, at: usize, name: &str) -> Result<Expression, Wrong> {
        self.comparisons += 1;
        if self.comparisons > MAX_COMPARISONS {
            return Err((at, format!("more than {MAX_COMPARISONS} comparisons")));
        }
        let Some(field) = self.catalog.find(name) else {
            let all = self.catalog.names(|_| true);
            return Err((at, format!("there is no field {name:?}; there are {all}")));
        };
        let key = self.key(field)?;
        let (operator_at, operator) = match self.next("an operator")? {
            (at, Word::Operator(operator)) => (at, operator),
            (at, word) => {
                let rule = format!(
                    "{} stands where =, !=, <, <=, >, >= or : belongs",
                    show(&word)
                );
                return Err((at, rule));
            }
        };
        let (value_at, value, quoted) = match self.next("a value")? {
            (at, Word::Bare(value)) => (at, value, false),
            (at, Word::Quoted(value)) => (at, value, true),
            (at, word) => {
                return Err((at, format!("{} stands where a value belongs", show(&word))));
            }
        };
        if operator == Operator::Has && !quoted && value == "*" {
            let requested = Requested::IsSet;
            return Ok(Expression::Is(Comparison {
                field,
                key,
                requested,
            }));
        }
        if !quoted && value == "*" {
            let rule = "* says after : only that a field is set; quote the text".to_owned();
            return Err((value_at, rule));
        }
        if field.kind == Kind::Labels && key.is_none() {
            // labels:team is labels.team:*
            if operator != Operator::Has {
                let rule = format!("name one of the {name}: {name}.KEY {} …", operator.symbol());
                return Err((operator_at, rule));
            }
            return Ok(Expression::Is(Comparison {
                field,
                key: Some(value),
                requested: Requested::IsSet,
            }));
        }
        let allowed = takes(field.kind);
        if !allowed.contains(&operator) {
            let symbols: Vec<_> = allowed.iter().map(|one| one.symbol()).collect();
            let rule = format!("{name} takes {} only, and {name}:*", symbols.join(", "));
            return Err((operator_at, rule));
        }
        let requested = match operator {
            Operator::Has => Requested::Contains(value),
            operator => Requested::Compare(
                operator,
                typed(field, value).map_err(|rule| (value_at, rule))?,
            ),
        };
        Ok(Expression::Is(Comparison {
            field,
            key,
            requested,
        }))
    }

    /// The key after the dot, of labels.
    fn key(&mut self, field: &Field) -> Result<Option<String>, Wrong> {
        let Some((at, _)) = self.words.next_if(|(_, word)| *word == Word::Dot) else {
            return Ok(None);
        };
        if field.kind != Kind::Labels {
            return Err((at, format!("{} has no fields of its own", field.name)));
        }
        match self.next("a key")? {
            (_, Word::Bare(key) | Word::Quoted(key)) => Ok(Some(key)),
            (at, word) => Err((at, format!("{} stands where a key belongs", show(&word)))),
        }
    }

    fn next(&mut self, wanted: &str) -> Result<Placed, Wrong> {
        let end = self.end;
        self.words
            .next()
            .ok_or_else(|| (end, format!("ends where {wanted} belongs")))
    }
}

fn takes(kind: Kind) -> &'static [Operator] {
    use Operator::{AtLeast, AtMost, Equal, Greater, Has, Less, NotEqual};
    match kind {
        Kind::Text | Kind::Labels => &[Equal, NotEqual, Has],
        Kind::OneOf(_) | Kind::Id | Kind::Flag => &[Equal, NotEqual],
        Kind::Number | Kind::Time => &[Equal, NotEqual, Less, AtMost, Greater, AtLeast],
    }
}

fn typed(field: &Field, text: String) -> Result<Value, String> {
    let name = field.name;
    Ok(match field.kind {
        Kind::Text | Kind::Labels => Value::Text(text),
        Kind::OneOf(values) => match values.contains(&text.as_str()) {
            true => Value::Text(text),
            false => {
                return Err(format!(
                    "{name} is never {text:?}; it is one of {}",
                    values.join(", ")
                ));
            }
        },
        Kind::Id => {
            let id = text.parse().map_err(|_| format!("{name} is a UUID"))?;
            Value::Id(id)
        }
        Kind::Number => {
            let number = text.parse();
            Value::Number(number.map_err(|_| format!("{name} is a whole number of 64 bits"))?)
        }
        Kind::Time => time(&text).ok_or_else(|| {
            format!("{name} is a time such as \"2026-11-25T08:00:00Z\", or a day, from 1970 on")
        })?,
        Kind::Flag => match text.as_str() {
            "true" => Value::Flag(true),
            "false" => Value::Flag(false),
            _ => return Err(format!("{name} is true or false")),
        },
    })
}

/// The database has no time long before, and nothing here happened then.
fn time(text: &str) -> Option<Value> {
    let at: Timestamp = match text.parse() {
        Ok(at) => at,
        Err(_) => {
            let day: Date = text.parse().ok()?;
            day.to_zoned(TimeZone::UTC).ok()?.timestamp()
        }
    };
    (at >= Timestamp::UNIX_EPOCH).then_some(Value::Time(at))
}

impl Operator {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
            Self::Has => ":",
        }
    }
}

fn show(word: &Word) -> String {
    match word {
        Word::Bare(text) | Word::Quoted(text) => format!("{text:?}"),
        Word::Operator(operator) => operator.symbol().to_owned(),
        Word::Dot => ".".to_owned(),
        Word::Open => "(".to_owned(),
        Word::Close => ")".to_owned(),
    }
}
