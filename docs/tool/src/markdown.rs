//! Small parts of Markdown: table cells, heading anchors, and lines outside fenced blocks.

/// Text for a table cell: one line, with what Markdown or HTML would take as markup escaped outside code spans.
pub fn cell(text: &str) -> String {
    let mut cell = String::with_capacity(text.len());
    let mut code = false;
    for c in text.trim().chars() {
        match c {
            '`' => {
                code = !code;
                cell.push(c);
            }
            '\n' => cell.push(' '),
            '|' => cell.push_str("\\|"),
            '<' | '*' if !code => {
                cell.push('\\');
                cell.push(c);
            }
            _ => cell.push(c),
        }
    }
    cell
}

/// The anchor of a heading, as mdBook and code hosts make it.
pub fn slug(heading: &str) -> String {
    heading
        .trim()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

/// Lines outside fenced code blocks, with their numbers from 1.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let trimmed = line.trim_start();
        let marks = ["```", "~~~"]
            .into_iter()
            .find(|marks| trimmed.starts_with(marks));
        match (fence, marks) {
            (None, Some(marks)) => {
                fence = Some(marks);
                None
            }
            (Some(open), Some(marks)) if open == marks => {
                fence = None;
                None
            }
            (Some(_), _) => None,
            (None, None) => Some((number + 1, line)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_one_escaped_line() {
        assert_eq!(cell("a | b\n<id> `c <d>` *"), "a \\| b \\<id> `c <d>` \\*");
    }

    #[test]
    fn slugs_are_those_of_code_hosts() {
        for (heading, expected) in [
            (
                "A.1 Nodes, identity, enrolment",
                "a1-nodes-identity-enrolment",
            ),
            ("INC: Incidents", "inc-incidents"),
            ("`make up`: what it does", "make-up-what-it-does"),
            ("P1 – a GPU", "p1--a-gpu"),
        ] {
            assert_eq!(slug(heading), expected);
        }
    }

    #[test]
    fn fenced_lines_are_not_prose() {
        let text = "a\n```sh\n# b\n~~~\n```\nc\n";
        assert_eq!(prose(text).collect::<Vec<_>>(), [(1, "a"), (6, "c")]);
    }
}
