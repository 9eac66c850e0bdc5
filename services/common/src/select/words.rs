//! The words of a filter: names, values, operators and parentheses, with their places.
use super::Operator;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    /// Without quotes.
    Bare(String),
    Quoted(String),
    Operator(Operator),
    Dot,
    Open,
    Close,
}

/// A word, and the character at which it begins, from 1.
pub(super) type Placed = (usize, Word);

/// What is wrong, and at which character.
pub(super) type Wrong = (usize, String);

struct Reader<'a> {
    rest: std::iter::Peekable<std::iter::Enumerate<std::str::Chars<'a>>>,
    /// Only in a name a dot parts, and only in a value a colon belongs to a word: after an operator a value comes.
    in_value: bool,
}

pub(super) fn split(text: &str) -> Result<Vec<Placed>, Wrong> {
    let mut reader = Reader {
        rest: text.chars().enumerate().peekable(),
        in_value: false,
    };
    let mut words = Vec::new();
    while let Some((at, first)) = reader.rest.next() {
        if first.is_whitespace() {
            continue;
        }
        let word = reader.word(first).map_err(|rule| (at + 1, rule))?;
        reader.in_value = matches!(word, Word::Operator(_));
        words.push((at + 1, word));
    }
    Ok(words)
}

impl Reader<'_> {
    fn word(&mut self, first: char) -> Result<Word, String> {
        Ok(match first {
            '(' => Word::Open,
            ')' => Word::Close,
            '.' => Word::Dot,
            ':' => Word::Operator(Operator::Has),
            '=' => Word::Operator(Operator::Equal),
            '!' if self.follows('=') => Word::Operator(Operator::NotEqual),
            '<' if self.follows('=') => Word::Operator(Operator::AtMost),
            '<' => Word::Operator(Operator::Less),
            '>' if self.follows('=') => Word::Operator(Operator::AtLeast),
            '>' => Word::Operator(Operator::Greater),
            '"' | '\'' => Word::Quoted(self.quoted(first)?),
            '*' if self.in_value => Word::Bare("*".to_owned()),
            _ if self.is_bare(first) => Word::Bare(self.bare(first)),
            _ => return Err(format!("{first:?} has no meaning here; quote texts")),
        })
    }

    fn follows(&mut self, wanted: char) -> bool {
        self.rest.next_if(|(_, next)| *next == wanted).is_some()
    }

    fn is_bare(&self, one: char) -> bool {
        one.is_alphanumeric()
            || matches!(one, '_' | '-')
            || (self.in_value && matches!(one, '.' | ':' | '/' | '@' | '+'))
    }

    fn bare(&mut self, first: char) -> String {
        let mut text = String::from(first);
        while let Some((_, next)) = self.rest.peek().copied() {
            if !self.is_bare(next) {
                break;
            }
            text.push(next);
            self.rest.next();
        }
        text
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        while let Some((_, next)) = self.rest.next() {
            match next {
                _ if next == quote => return Ok(text),
                '\0' => return Err("a text must not hold NUL".to_owned()),
                '\\' => match self.rest.next() {
                    Some((_, escaped @ ('"' | '\'' | '\\'))) => text.push(escaped),
                    _ => return Err("\\ may stand before a quote or another \\ only".to_owned()),
                },
                _ => text.push(next),
            }
        }
        Err("the quote is not closed".to_owned())
    }
}
