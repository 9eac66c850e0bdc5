//! Fits tables into a terminal: what is cut is in the JSON output.
use std::collections::BTreeSet;
use std::io::IsTerminal as _;

use unicode_width::UnicodeWidthStr as _;

use crate::formats::{self, Format};
use crate::tty;

/// Spaces between columns.
const GAP: usize = 2;
/// A column is not cut below this width.
const LEAST: usize = 10;
/// Shortest beginning of an id: commands take any that is unique.
pub const ID_PREFIX: usize = 8;
const ID_LENGTH: usize = 36;

/// The width to fit into: that of the terminal, or what `COLUMNS` says; none for a pipe, a file, or the
/// wide format.
pub fn width() -> Option<usize> {
    if formats::chosen() == Format::Wide {
        return None;
    }
    let set = std::env::var("COLUMNS").ok();
    let set = set.and_then(|text| text.parse().ok()).filter(|w| *w >= 40);
    set.or_else(|| {
        std::io::stdout()
            .is_terminal()
            .then(|| usize::from(tty::size().0))
    })
}

/// A text with more line breaks, in place of spaces, where a line is too wide; what follows a new one begins at column
/// `indent`. A word that is too long stays whole: it may be copied.
pub fn wrapped(text: &str, indent: usize) -> String {
    let Some(width) = width() else {
        return text.to_owned();
    };
    let lines = text.split('\n').map(|line| wrapped_at(line, width, indent));
    lines.collect::<Vec<_>>().join("\n")
}

fn wrapped_at(line: &str, width: usize, indent: usize) -> String {
    let margin = format!("\n{:indent$}", "");
    let (mut out, mut rest, mut room) = (String::new(), line, width);
    // columns that are no text: breaks there would help nobody
    let mut fixed = indent;
    while rest.width() > room {
        let fits = spaces(rest)
            .filter(|(column, _)| *column > fixed)
            .take_while(|(column, _)| *column <= room)
            .last();
        let Some((_, at)) = fits.or_else(|| spaces(rest).find(|(column, _)| *column > room)) else {
            break;
        };
        out.push_str(rest[..at].trim_end());
        out.push_str(&margin);
        rest = rest[at..].trim_start();
        room = width.saturating_sub(indent).max(1);
        fixed = 0;
    }
    out + rest
}

/// The spaces of a line: in which column each is, and at which byte.
fn spaces(line: &str) -> impl Iterator<Item = (usize, usize)> {
    let all = line.match_indices(' ');
    all.map(|(at, _)| (line[..at].width(), at))
}

/// At most so many columns, of which a wide letter takes two; what was cut is in the JSON output.
pub fn short(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let fits = ends.take_while(|end| text[..*end].width() < most).last();
    format!("{}…", text[..fits.unwrap_or(0)].trim_end())
}

/// A text with the spaces behind it that fill so many columns.
pub fn padded(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(text.width());
    format!("{text}{:missing$}", "")
}

/// Shortens cells until a line takes at most `width` columns: first ids and times, then the widest texts. Answers how many
/// columns fit at all; the others are left out.
pub fn rows<const N: usize>(header: &[&str; N], rows: &mut [[String; N]], width: usize) -> usize {
    let line =
        |widths: &[usize]| widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
    let mut now = widths(header, rows);
    if line(&now) <= width {
        return N;
    }
    let mut whole = [false; N];
    for (column, whole) in whole.iter_mut().enumerate() {
        *whole = shorten_ids(rows, column) | shorten_times(rows, column);
    }
    now = widths(header, rows);
    let least: [usize; N] = std::array::from_fn(|column| {
        let most = if whole[column] { now[column] } else { LEAST };
        now[column].min(most.max(header[column].len()))
    });
    let mut shown = N;
    while shown > 2 && line(&least[..shown]) > width {
        shown -= 1;
    }
    while line(&now[..shown]) > width {
        let shrinkable = (0..shown).filter(|column| now[*column] > least[*column]);
        let Some(widest) = shrinkable.max_by_key(|column| now[*column]) else {
            break;
        };
        now[widest] -= 1;
    }
    for row in rows.iter_mut() {
        for (cell, most) in row.iter_mut().zip(now) {
            *cell = short(cell, most);
        }
    }
    shown
}

fn widths<const N: usize>(header: &[&str; N], rows: &[[String; N]]) -> [usize; N] {
    std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].width());
        cells.max().unwrap_or(0).max(header[column].len())
    })
}

fn is_id(text: &str) -> bool {
    let hex = |(index, c): (usize, char)| match index {
        8 | 13 | 18 | 23 => c == '-',
        _ => c.is_ascii_hexdigit(),
    };
    text.len() == ID_LENGTH && text.chars().enumerate().all(hex)
}

/// Cuts the ids of a column to the shortest beginning that tells them apart; whether there are any.
fn shorten_ids<const N: usize>(rows: &mut [[String; N]], column: usize) -> bool {
    let ids: BTreeSet<String> = rows
        .iter()
        .map(|row| row[column].clone())
        .filter(|cell| is_id(cell))
        .collect();
    let is_unique = |length: usize| {
        let begun: BTreeSet<&str> = ids.iter().map(|id| &id[..length]).collect();
        begun.len() == ids.len()
    };
    let length = (ID_PREFIX..ID_LENGTH).find(|length| is_unique(*length));
    for row in rows.iter_mut().filter(|row| is_id(&row[column])) {
        row[column].truncate(length.unwrap_or(ID_LENGTH));
    }
    !ids.is_empty()
}

/// Shortens the times of a column; whether there are any.
fn shorten_times<const N: usize>(rows: &mut [[String; N]], column: usize) -> bool {
    let mut any = false;
    for row in rows.iter_mut() {
        any |= shorten_time(&mut row[column]);
    }
    any
}

/// `2026-01-31 12:00:00 CET` without year, seconds and zone; whether it is a time.
fn shorten_time(cell: &mut String) -> bool {
    let digits = |range: std::ops::Range<usize>| {
        cell.get(range)
            .is_some_and(|part| part.bytes().all(|b| b.is_ascii_digit()))
    };
    let is_time = cell.len() >= 19
        && cell.len() <= 25
        && digits(0..4)
        && digits(5..7)
        && digits(8..10)
        && digits(11..13)
        && digits(14..16)
        && cell.is_char_boundary(16);
    if is_time {
        *cell = cell[5..16].to_owned();
    }
    is_time
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted<const N: usize>(
        header: [&str; N],
        mut table: Vec<[&str; N]>,
        width: usize,
    ) -> Vec<[String; N]> {
        let mut cells: Vec<[String; N]> =
            table.drain(..).map(|row| row.map(str::to_owned)).collect();
        rows(&header, &mut cells, width);
        cells
    }

    #[test]
    fn long_text_is_cut_where_a_table_shows_it() {
        assert_eq!(short("wiped: blkdiscard", 20), "wiped: blkdiscard");
        assert_eq!(short("approved by discovery 7", 12), "approved by…");
        assert_eq!(short("ééééé", 3), "éé…");
        // a wide letter takes two columns, and is not cut in half
        assert_eq!(short("訓練機", 6), "訓練機");
        assert_eq!(short("訓練機", 5), "訓練…");
        assert_eq!(short("訓練機", 4), "訓…");
        assert_eq!(padded("訓練", 5), "訓練 ");
    }

    #[test]
    fn a_table_that_fits_stays_as_it_is() {
        let row = ["01930000-0001-7000-8000-000000000001", "web"];
        assert_eq!(fitted(["ID", "NAME"], vec![row], 80), [row]);
    }

    #[test]
    fn what_does_not_fit_at_all_is_left_out_from_the_right() {
        let mut table = vec![[
            "x".repeat(20),
            "y".repeat(20),
            "z".repeat(20),
            "w".repeat(20),
        ]];
        assert_eq!(rows(&["A", "B", "C", "D"], &mut table, 36), 3);
        assert_eq!(
            table[0].each_ref().map(|cell| cell.chars().count())[..3],
            [11, 11, 10]
        );
    }

    #[test]
    fn ids_keep_what_tells_them_apart_and_times_their_minute() {
        let table = vec![
            [
                "01930000-0001-7000-8000-000000000001",
                "web",
                "2026-01-31 12:00:00 CET",
            ],
            [
                "01930000-0002-7000-8000-000000000001",
                "db",
                "2026-01-31 13:05:00 CET",
            ],
        ];
        assert_eq!(
            fitted(["ID", "NAME", "CREATED"], table, 50),
            [
                ["01930000-0001", "web", "01-31 12:00"],
                ["01930000-0002", "db", "01-31 13:05"]
            ]
        );
    }

    #[test]
    fn the_widest_texts_are_cut_until_a_line_fits() {
        let long = "one of many reasons that go on and on and on and on and on";
        let cells = fitted(
            ["NAME", "REASON", "STATE"],
            vec![["web", long, "active"]],
            40,
        );
        let line: usize = cells[0].iter().map(|cell| cell.chars().count()).sum();
        assert!(line + 2 * GAP <= 40, "{cells:?}");
        assert!(cells[0][1].ends_with('…'), "{cells:?}");
        assert_eq!(cells[0][0], "web");
    }

    #[test]
    fn wide_letters_take_two_columns() {
        let name = "訓練用クラスター🚀 その一";
        let cells = fitted(["NAME", "STATE"], vec![[name, "active"]], 24);
        let line: usize = cells[0].iter().map(|cell| cell.width()).sum();
        assert!(line + GAP <= 24, "{cells:?}");
        assert!(
            cells[0][0].starts_with("訓練用クラ") && cells[0][0].ends_with('…'),
            "{cells:?}"
        );
        let text = wrapped_at("Called       訓練用 クラスター その一", 24, 13);
        assert!(text.lines().all(|line| line.width() <= 24), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn a_line_breaks_at_spaces_and_goes_on_under_its_text() {
        let broken = |line, width, indent| wrapped_at(line, width, indent);
        assert_eq!(broken("Advice       short", 40, 13), "Advice       short");
        assert_eq!(
            broken("Advice       release one of them, or ask for more", 30, 13),
            "Advice       release one of\n             them, or ask for\n             more"
        );
        let long = "Advice       sha256:0123456789012345678901234567890123456789 then";
        assert_eq!(
            broken(long, 30, 13),
            "Advice       sha256:0123456789012345678901234567890123456789\n             then"
        );
        let step =
            "10:00:00  ok      provision.wait_login             1m 2s  The guest is reached.";
        assert!(broken(step, 60, 18).lines().all(|line| line.len() <= 60));
    }
}
