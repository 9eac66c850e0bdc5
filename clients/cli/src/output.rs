//! What a command prints: tables for people, the API's JSON for programs; times, money and sizes as text.
use std::fmt;
use std::io::{ErrorKind, Write as _, stderr, stdout};

use gpuaas_proto::google::r#type::Money;
use gpuaas_proto::json::Enumeration;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;
use tabled::builder::Builder;
use tabled::settings::{Padding, Style};

use crate::formats::Format;
use crate::{fit, formats};

/// A time of the contract, or of a flag.
pub trait Moment {
    /// It, where there is one.
    fn moment(self) -> Option<Timestamp>;
}

impl Moment for Option<Timestamp> {
    fn moment(self) -> Option<Timestamp> {
        self
    }
}

impl Moment for Option<prost_types::Timestamp> {
    fn moment(self) -> Option<Timestamp> {
        let at = self?;
        Timestamp::new(at.seconds, at.nanos).ok()
    }
}

/// The first second of year 1: the earliest time that the contract has.
const EARLIEST: i64 = -62_135_596_800;
/// 10,000 years: the longest time that the contract has, in seconds.
const LONGEST: i64 = 315_576_000_000;

/// A time as the contract has it; one that is earlier than any is the earliest.
pub fn stamp(at: Timestamp) -> prost_types::Timestamp {
    let (seconds, nanos) = match at.as_second() {
        ..EARLIEST => (EARLIEST, 0),
        seconds => (seconds, at.subsec_nanosecond()),
    };
    let mut stamp = prost_types::Timestamp { seconds, nanos };
    stamp.normalize();
    stamp
}

/// A length of time as the contract has it; one that is longer than any is the longest.
pub fn span_of(length: jiff::SignedDuration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: length.as_secs().clamp(-LONGEST, LONGEST),
        nanos: 0,
    }
}

/// The API's word for a value; empty for none, and for one of a later version.
pub fn word(value: impl Enumeration) -> String {
    if value == Default::default() {
        return String::new();
    }
    value.word()
}

/// Exit code when the output was closed: that of a program ended by the signal. Not 0, since the answer, such as a
/// violated invariant, was not printed.
const UNREAD: i32 = 141;

/// Prints a line of the answer, like `println!`, which would panic on a closed pipe; see [`answer`].
macro_rules! say {
    ($($text:tt)*) => { $crate::output::answer(format_args!($($text)*)) };
}

/// Prints a line of progress or a hint on standard error, unless the user wants none; see [`progress`].
macro_rules! note {
    ($($text:tt)*) => { $crate::output::progress(format_args!($($text)*)) };
}

/// Prints an error on standard error; see [`complain`].
macro_rules! complain {
    ($($text:tt)*) => { $crate::output::complain(format_args!($($text)*)) };
}

/// Writes a line to standard output at once. On a closed pipe the command ends here, quietly, with [`UNREAD`]. Where it cannot be written for another reason (a full disk), it fails.
pub fn answer(line: fmt::Arguments<'_>) {
    let mut out = stdout().lock();
    written(writeln!(out, "{line}").and_then(|()| out.flush()));
}

/// Ends the command where the answer could not be written; see [`answer`].
pub fn written(outcome: std::io::Result<()>) {
    if let Err(error) = outcome {
        if error.kind() == ErrorKind::BrokenPipe {
            std::process::exit(UNREAD);
        }
        complain(format_args!("error: cannot write the answer: {error}"));
        std::process::exit(1);
    }
}

/// Writes a line to standard error, unless `--quiet` is set. On a closed pipe the command continues.
pub fn progress(line: fmt::Arguments<'_>) {
    if !formats::is_quiet() {
        complain(line);
    }
}

/// Writes a line to standard error. On a closed pipe the command continues.
pub fn complain(line: fmt::Arguments<'_>) {
    let _ = writeln!(stderr().lock(), "{line}");
}

/// Prints an answer for programs in the chosen format; nothing for an empty list of items or names.
pub fn print_json(value: &Value) {
    let text = formats::chosen().text(value);
    if !text.is_empty() {
        say!("{text}");
    }
}

/// Prints one message of a stream for programs.
pub fn print_message(value: &Value) {
    match formats::chosen() {
        Format::Yaml => say!("---\n{}", Format::Yaml.text(value)),
        Format::Name => print_json(&value["change"]),
        _ => say!("{value}"),
    }
}

/// Prints a name and its value; nothing when the value is empty.
pub fn print_line(name: &str, value: &str) {
    if !value.is_empty() {
        say!("{}", fit::wrapped(&format!("{name:<12} {value}"), 13));
    }
}

/// A command to copy, on one line however long it is.
pub fn print_command(name: &str, command: &str) {
    say!("{name:<12} {command}");
}

/// Prints a table; nothing but the header when there are no rows. It is fitted into a terminal.
pub fn print_table<const N: usize>(header: [&str; N], mut rows: Vec<[String; N]>) {
    let shown = fit::width().map_or(N, |width| fit::rows(&header, &mut rows, width));
    say!("{}", table(&header[..shown], rows));
    if shown < N {
        let hidden = header[shown..].join(", ");
        let hint = format!(
            "Not shown, for lack of width: {hidden}. Use a wider terminal, or --output wide."
        );
        note!("{}", fit::wrapped(&hint, 0));
    }
}

fn table<const N: usize>(header: &[&str], rows: Vec<[String; N]>) -> String {
    let mut builder = Builder::default();
    builder.push_record(header.iter().copied());
    for row in rows {
        builder.push_record(row.into_iter().take(header.len()).map(|cell| {
            if cell.is_empty() {
                "-".to_owned()
            } else {
                cell
            }
        }));
    }
    let mut table = builder.build();
    let text = table
        .with(Style::empty())
        .with(Padding::new(0, 2, 0, 0))
        .to_string();
    text.lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n")
}

/// A time in the user's zone.
pub fn time(timestamp: impl Moment) -> String {
    timestamp
        .moment()
        .map(|t| {
            t.to_zoned(TimeZone::system())
                .strftime("%Y-%m-%d %H:%M:%S %Z")
                .to_string()
        })
        .unwrap_or_default()
}

/// How long ago something was, in its largest unit.
pub fn age(timestamp: impl Moment) -> String {
    timestamp
        .moment()
        .map(|then| old(Timestamp::now().as_second() - then.as_second()))
        .unwrap_or_default()
}

fn old(seconds: i64) -> String {
    match seconds {
        ..1 => "now".to_owned(),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A time of day in the user's zone.
pub fn clock(timestamp: impl Moment) -> String {
    timestamp
        .moment()
        .map(|t| {
            t.to_zoned(TimeZone::system())
                .strftime("%H:%M:%S")
                .to_string()
        })
        .unwrap_or_default()
}

/// Whole seconds as hours, minutes and seconds.
pub fn duration(seconds: i64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m {rest:02}s"),
        _ => format!("{hours}h {minutes:02}m {rest:02}s"),
    }
}

/// Microseconds as hours, minutes and seconds; less than a second with its tenths.
pub fn span(microseconds: i64) -> String {
    match microseconds {
        1..100_000 => "<0.1s".to_owned(),
        100_000..1_000_000 => format!("0.{}s", microseconds / 100_000),
        _ => duration(microseconds / 1_000_000),
    }
}

/// Time between two moments with a tenth of a second.
pub fn took(start: impl Moment, end: impl Moment) -> String {
    match (start.moment(), end.moment()) {
        (Some(start), Some(end)) => {
            let tenths = (end.as_millisecond() - start.as_millisecond()).max(0) / 100;
            if tenths < 600 {
                format!("{}.{}s", tenths / 10, tenths % 10)
            } else {
                duration(tenths / 10)
            }
        }
        _ => String::new(),
    }
}

/// Decimals that show an amount with two digits that count: two from a tenth of a unit on, up to six below.
fn places(money: &Money) -> usize {
    match (money.units, money.nanos.unsigned_abs()) {
        (0, 0) => 2,
        (0, nanos) if nanos < 1_000_000 => 6,
        (0, nanos) if nanos < 100_000_000 => 4,
        _ => 2,
    }
}

/// Rounded half up to so many decimals; what is not nothing never reads as nothing.
fn rounded(money: &Money, places: usize) -> String {
    let step = 10_i128.pow(9 - u32::try_from(places.min(9)).unwrap_or(9));
    let nanos = i128::from(money.units) * 1_000_000_000 + i128::from(money.nanos);
    let magnitude = nanos.abs();
    let (less, shown) = if magnitude > 0 && magnitude < step {
        ("<", step)
    } else {
        ("", (magnitude + step / 2) / step * step)
    };
    let sign = if nanos < 0 && less.is_empty() {
        "-"
    } else {
        ""
    };
    let (units, rest) = (shown / 1_000_000_000, shown % 1_000_000_000);
    let decimals = format!("{rest:09}");
    format!(
        "{less}{sign}{units}.{} {}",
        &decimals[..places],
        money.currency_code
    )
    .trim_end()
    .to_owned()
}

/// Money with the digits that matter; the JSON output has all of them.
pub fn amount(money: Option<&Money>) -> String {
    money.map_or_else(String::new, |money| rounded(money, places(money)))
}

/// A column of money with the same decimals in every row, at the right.
pub fn amounts<'a>(column: impl Iterator<Item = Option<&'a Money>>) -> Vec<String> {
    let column: Vec<Option<&Money>> = column.collect();
    let most = column.iter().flatten().map(|money| places(money)).max();
    let cells = column
        .iter()
        .map(|money| money.map_or_else(String::new, |money| rounded(money, most.unwrap_or(2))));
    let cells: Vec<String> = cells.collect();
    let width = cells.iter().map(String::len).max().unwrap_or_default();
    cells.iter().map(|cell| format!("{cell:>width$}")).collect()
}

/// A column of exact money, such as prices, with its points below each other.
pub fn aligned<'a>(column: impl Iterator<Item = Option<&'a Money>>) -> Vec<String> {
    let cells: Vec<String> = column.map(money).collect();
    let split = |cell: &String| {
        let point = cell.find('.').unwrap_or(cell.len());
        let end = cell.find(' ').unwrap_or(cell.len());
        (point, end - point)
    };
    let before = cells.iter().map(|cell| split(cell).0).max().unwrap_or(0);
    let after = cells.iter().map(|cell| split(cell).1).max().unwrap_or(0);
    let line_up = |cell: &String| {
        let (point, decimals) = split(cell);
        let (amount, currency) = cell.split_once(' ').unwrap_or((cell, ""));
        let (left, right) = (before - point, after - decimals);
        format!("{:left$}{amount}{:right$} {currency}", "", "")
            .trim_end()
            .to_owned()
    };
    cells.iter().map(line_up).collect()
}

/// Exact money: no digit is rounded away, at least two decimals are shown.
pub fn money(money: Option<&Money>) -> String {
    let Some(money) = money else {
        return String::new();
    };
    let negative = money.units < 0 || money.nanos < 0;
    let mut decimals = format!("{:09}", money.nanos.unsigned_abs());
    while decimals.len() > 2 && decimals.ends_with('0') {
        decimals.pop();
    }
    format!(
        "{}{}.{decimals} {}",
        if negative { "-" } else { "" },
        money.units.unsigned_abs(),
        money.currency_code
    )
    .trim_end()
    .to_owned()
}

/// Reads an amount such as "1.25 EUR" into `google.type.Money`, exactly.
pub fn parse_money(text: &str) -> Option<Money> {
    let (amount, currency) = text.trim().split_once(' ')?;
    let currency = currency.trim();
    let (units, decimals) = amount.split_once('.').unwrap_or((amount, ""));
    let plain = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let valid = !units.is_empty() && plain(units) && plain(decimals) && decimals.len() <= 9;
    if !valid || currency.len() != 3 || !currency.bytes().all(|b| b.is_ascii_uppercase()) {
        return None;
    }
    let units: i64 = units.parse().ok()?;
    let nanos: i32 = format!("{decimals:0<9}").parse().ok()?;
    Some(Money {
        currency_code: currency.to_owned(),
        units,
        nanos,
    })
}

/// Bytes as the contract counts them; see [`bytes`].
pub fn size(size: u64) -> String {
    bytes(i64::try_from(size).unwrap_or(i64::MAX))
}

/// Bytes in the largest binary unit that keeps the number small.
pub fn bytes(size: i64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = size.max(0) as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{size} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eur(units: i64, nanos: i32) -> Money {
        Money {
            currency_code: "EUR".to_owned(),
            units,
            nanos,
        }
    }

    #[test]
    fn money_is_exact() {
        for (money_in, text) in [
            (eur(0, 0), "0.00 EUR"),
            (eur(12, 340_000_000), "12.34 EUR"),
            (eur(0, 1), "0.000000001 EUR"),
            (eur(3, 500_000_000), "3.50 EUR"),
            (
                eur(9_007_199_254_740_993, 10_000_000),
                "9007199254740993.01 EUR",
            ),
            (eur(0, -250_000_000), "-0.25 EUR"),
        ] {
            assert_eq!(money(Some(&money_in)), text);
        }
        assert_eq!(money(None), "");
    }

    #[test]
    fn rows_of_money_show_the_digits_that_matter_below_each_other() {
        for (money_in, text) in [
            (eur(0, 19_156_300), "0.0192 EUR"),
            (eur(2, 495_000_000), "2.50 EUR"),
            (eur(0, 640_123_456), "0.64 EUR"),
            (eur(0, 999), "<0.000001 EUR"),
            (eur(0, 0), "0.00 EUR"),
            (eur(0, -19_156_300), "-0.0192 EUR"),
        ] {
            assert_eq!(amount(Some(&money_in)), text);
        }
        let column = [Some(eur(12, 490_000_000)), None, Some(eur(0, 19_156_300))];
        assert_eq!(
            amounts(column.iter().map(Option::as_ref)),
            ["12.4900 EUR", "           ", " 0.0192 EUR"]
        );
    }

    #[test]
    fn amounts_are_read_exactly_or_refused() {
        assert_eq!(parse_money("1.25 EUR"), Some(eur(1, 250_000_000)));
        let dollars = parse_money("2 USD").expect("an amount");
        assert_eq!(
            (dollars.currency_code.as_str(), dollars.units, dollars.nanos),
            ("USD", 2, 0)
        );
        for bad in [
            "",
            "1.25",
            "EUR 1",
            "1,25 EUR",
            "-1 EUR",
            "1.2.3 EUR",
            "1.0000000001 EUR",
            "1 eur",
            ".5 EUR",
            "1e3 EUR",
        ] {
            assert_eq!(parse_money(bad), None, "{bad}");
        }
    }

    #[test]
    fn durations_and_sizes_read_well() {
        assert_eq!(duration(5), "5s");
        assert_eq!(duration(65), "1m 05s");
        assert_eq!(duration(3723), "1h 02m 03s");
        assert_eq!(span(0), "0s");
        assert_eq!(span(42), "<0.1s");
        assert_eq!(span(640_000), "0.6s");
        assert_eq!(span(65_900_000), "1m 05s");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(2 * 1024 * 1024 + 512 * 1024), "2.5 MiB");
    }

    #[test]
    fn an_age_has_one_unit() {
        assert_eq!(
            [-5, 0, 59, 61, 7200, 200_000].map(old),
            ["now", "now", "59s", "1m", "2h", "2d"]
        );
    }

    #[test]
    fn tables_align_and_mark_what_is_absent() {
        let text = table(
            &["ID", "NAME"],
            vec![
                ["a".to_owned(), "first".to_owned()],
                ["long-id".to_owned(), String::new()],
            ],
        );
        assert_eq!(text, "ID       NAME\na        first\nlong-id  -");
    }
}
