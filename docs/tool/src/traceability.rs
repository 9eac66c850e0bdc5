//! `docs/traceability.md`: which test, which code and which page stands behind each requirement.
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::Result;
use crate::ids::{GROUPS, Id};
use crate::markdown::cell;
use crate::page::Page;
use crate::pages::{self, Named, NotBuilt};
use crate::requirements::{self, Requirement};
use crate::scan::{self, Found};

/// Path of the page below the root.
pub const PATH: &str = "docs/traceability.md";

/// Longest text of a requirement in the table, in characters.
const TEXT: usize = 110;

/// Tests that `make test` leaves out, by their folder, and what runs them.
const ELSEWHERE: [(&str, &str); 5] = [
    ("load-tests/tests/", "make test-host"),
    ("tests/tests/host/", "make test-host"),
    ("tests/tests/kills/", "make test-host"),
    ("tests/tests/chaos/", "make test-chaos"),
    ("clients/console/e2e/", "make test-host"),
];

/// How far a requirement is covered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cover {
    Test,
    Partly,
    CodeOnly,
    PageOnly,
    NotBuilt,
    Nothing,
}

const COVERS: usize = 6;

/// All that is said of requirements.
#[derive(Default)]
struct References {
    sources: Found,
    named: Vec<Named>,
    not_built: Vec<NotBuilt>,
}

/// What names one requirement: test names by file, files of code, pages.
#[derive(Default)]
struct Places<'a> {
    tests: BTreeMap<&'a str, Vec<&'a str>>,
    code: Vec<&'a str>,
    pages: Vec<&'a str>,
    missing: Vec<&'a str>,
    not_built: Vec<&'a str>,
}

impl Places<'_> {
    fn cover(&self) -> Cover {
        if !self.missing.is_empty() {
            return Cover::Partly;
        }
        if !self.tests.is_empty() {
            Cover::Test
        } else if !self.code.is_empty() {
            Cover::CodeOnly
        } else if !self.not_built.is_empty() {
            Cover::NotBuilt
        } else if !self.pages.is_empty() {
            Cover::PageOnly
        } else {
            Cover::Nothing
        }
    }
}

/// Makes the page, and a summary for the terminal.
///
/// # Errors
/// An unreadable file or a malformed requirement list.
pub fn page(root: &Path) -> Result<(Page, String)> {
    let requirements = requirements::parse(&crate::read(&root.join(requirements::PATH))?)?;
    let (named, not_built) = pages::tree(root)?;
    let said = References {
        sources: scan::tree(root)?,
        named,
        not_built,
    };
    Ok((
        Page {
            path: PATH.to_owned(),
            text: render(&requirements, &said),
        },
        summary(&requirements, &said),
    ))
}

fn places(said: &References) -> BTreeMap<Id, Places<'_>> {
    let mut all: BTreeMap<Id, Places<'_>> = BTreeMap::new();
    for mention in &said.sources.mentions {
        let places = all.entry(mention.id).or_default();
        match &mention.test {
            Some(test) => places.tests.entry(&mention.file).or_default().push(test),
            None => places.code.push(&mention.file),
        }
    }
    for partly in &said.sources.partly {
        let places = all.entry(partly.id).or_default();
        places.missing.push(&partly.missing);
    }
    for named in &said.named {
        all.entry(named.id).or_default().pages.push(&named.page);
    }
    for one in &said.not_built {
        all.entry(one.id).or_default().not_built.push(&one.why);
    }
    all
}

fn count<'a>(
    requirements: impl Iterator<Item = &'a Requirement>,
    places: &BTreeMap<Id, Places<'_>>,
) -> [usize; COVERS] {
    let mut counts = [0; COVERS];
    for requirement in requirements {
        let cover = places
            .get(&requirement.id)
            .map_or(Cover::Nothing, Places::cover);
        counts[cover as usize] += 1;
    }
    counts
}

fn of_group<'a>(
    requirements: &'a [Requirement],
    group: &'a str,
) -> impl Iterator<Item = &'a Requirement> {
    requirements.iter().filter(move |r| r.id.group() == group)
}

fn summary(requirements: &[Requirement], said: &References) -> String {
    let places = places(said);
    let others = requirements.iter().filter(|r| r.id.group() != "INC");
    let mut text = String::new();
    for (name, [test, partly, code, page, not_built, nothing]) in [
        ("INC", count(of_group(requirements, "INC"), &places)),
        ("others", count(others, &places)),
    ] {
        let _ = writeln!(
            text,
            "{name}: {test} with a test, {partly} partly, {code} code only, {page} a page only, {not_built} not built by decision, {nothing} nothing"
        );
    }
    let known: Vec<Id> = requirements.iter().map(|r| r.id).collect();
    let sources = said.sources.mentions.iter().map(|it| (&it.file, it.id));
    let pages = said.named.iter().map(|it| (&it.page, it.id));
    for (file, id) in sources.chain(pages).filter(|(_, id)| !known.contains(id)) {
        let _ = writeln!(text, "warning: {file} names {id}, which is not in the list");
    }
    text
}

fn render(requirements: &[Requirement], said: &References) -> String {
    let places = places(said);
    let mut page = String::from(
        "# Traceability\n\n\
         Generated by `gpuaas-docs traceability` from the sources; do not edit.\n\n\
         Each line of the [requirement list](requirements.md) with what stands behind it. *Tests* are tests whose \
         name starts with the id (`inc_12_…`) or whose comment names it; *code* are files with a comment that names \
         it. Tests that `make test` leaves out stand with the command that runs them. *Pages* are the hand-written pages \
         that name the id: they describe or decide the line, and say themselves whether it is built. A line without any \
         is not there yet, or is there without saying so. Of a line that is *partly* there, whatever tests it has, a \
         comment `partly A-12: …` says what is missing; of a line that is deliberately *not built*, the item \
         `not built A-12: …` of a page says why. Incidents come first.\n\n\
         ## Counts\n\n\
         | group | lines | with a test | partly | code only | page only | not built | nothing |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut row = |name: &str, counts: [usize; COVERS]| {
        let counted = counts.map(|count| count.to_string()).join(" | ");
        let lines: usize = counts.iter().sum();
        let _ = writeln!(page, "| {name} | {lines} | {counted} |");
    };
    for (group, title) in GROUPS {
        row(
            &format!("[{group}](#{}) {title}", anchor(group, title)),
            count(of_group(requirements, group), &places),
        );
    }
    row(
        "all but INC",
        count(
            requirements.iter().filter(|r| r.id.group() != "INC"),
            &places,
        ),
    );
    row("all", count(requirements.iter(), &places));
    for (group, title) in GROUPS {
        let _ = write!(
            page,
            "\n## {group}: {title}\n\n| id | requirement | tests | code | pages | what is missing |\n|---|---|---|---|---|---|\n"
        );
        for requirement in of_group(requirements, group) {
            let of_line = places.get(&requirement.id).map_or_else(
                || " |  |  | ".to_owned(),
                |places| {
                    [
                        tests(places),
                        files(&places.code),
                        files(&places.pages),
                        missing(places),
                    ]
                    .join(" | ")
                },
            );
            let _ = writeln!(
                page,
                "| {} | {} | {of_line} |",
                requirement.id,
                cell(&requirements::short(&requirement.text, TEXT)),
            );
        }
    }
    page
}

fn anchor(group: &str, title: &str) -> String {
    crate::markdown::slug(&format!("{group}: {title}"))
}

fn tests(places: &Places<'_>) -> String {
    let files = places.tests.iter().map(|(file, tests)| {
        let names: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
        let elsewhere = ELSEWHERE
            .iter()
            .find(|(folder, _)| file.starts_with(folder));
        let run_by = elsewhere.map_or_else(String::new, |(_, by)| format!(" (`{by}`)"));
        format!("`{file}`{run_by}: {}", names.join(", "))
    });
    files.collect::<Vec<_>>().join("<br>")
}

fn files(files: &[&str]) -> String {
    let files = files.iter().map(|file| format!("`{file}`"));
    files.collect::<Vec<_>>().join("<br>")
}

fn missing(places: &Places<'_>) -> String {
    let missing = places.missing.iter().map(|text| cell(text));
    let not_built = places.not_built.iter();
    let not_built = not_built.map(|why| format!("not built: {}", cell(why)));
    missing.chain(not_built).collect::<Vec<_>>().join("<br>")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "- INC-01: (told) One. [000]\n- INC-02: (told) Two | three. [000]\n- A-01: Four. [000]\n- A-02: Five. [001]\n";

    fn found() -> References {
        let mut mentions = scan::source(
            "tests/tests/it/x.rs",
            "#[test]\nfn inc_01_one() {\n}\n#[test]\nfn inc_01_two() {\n}\n",
        );
        mentions.extend(scan::source("gateway/src/a.rs", "//! A-01 and A-99.\n"));
        of_sources(mentions, Vec::new())
    }

    fn of_sources(mentions: Vec<scan::Mention>, partly: Vec<scan::Partly>) -> References {
        References {
            sources: Found { mentions, partly },
            ..References::default()
        }
    }

    fn list() -> Vec<Requirement> {
        requirements::parse(LIST).expect("parses")
    }

    #[track_caller]
    fn has(page: &str, line: &str) {
        assert!(page.lines().any(|l| l == line), "{line}\n{page}");
    }

    #[test]
    fn rows_show_tests_and_code() {
        let page = render(&list(), &found());
        for line in [
            "| INC-01 | One. | `tests/tests/it/x.rs`: `inc_01_one`, `inc_01_two` |  |  |  |",
            "| INC-02 | Two \\| three. |  |  |  |  |",
            "| A-01 | Four. |  | `gateway/src/a.rs` |  |  |",
            "| [INC](#inc-incidents) Incidents | 2 | 1 | 0 | 0 | 0 | 0 | 1 |",
            "| all but INC | 2 | 0 | 0 | 1 | 0 | 0 | 1 |",
            "| all | 4 | 1 | 0 | 1 | 0 | 0 | 2 |",
        ] {
            has(&page, line);
        }
        let incidents = page.find("## INC: Incidents");
        assert!(incidents.is_some() && incidents < page.find("## A: Inventory"));
    }

    #[test]
    fn what_is_missing_makes_a_line_partly_there_whatever_tests_it() {
        let text = "/// partly A-01: no page\n#[test]\nfn it_half_holds() {\n}\n";
        let said = of_sources(
            scan::source("gateway/tests/it/x.rs", text),
            scan::partly("gateway/tests/it/x.rs", text),
        );
        let page = render(&list(), &said);
        has(
            &page,
            "| A-01 | Four. | `gateway/tests/it/x.rs`: `it_half_holds` |  |  | no page |",
        );
        has(&page, "| all but INC | 2 | 0 | 1 | 0 | 0 | 0 | 1 |");
    }

    #[test]
    fn a_page_is_shown_and_what_is_not_built_says_why() {
        let id = |text| Id::parse(text).expect("an id");
        let page = "docs/decisions.md".to_owned();
        let named = ["INC-01", "INC-02", "A-01", "A-02"].map(|text| Named {
            id: id(text),
            page: page.clone(),
        });
        let not_built = ["INC-01", "A-02"].map(|text| NotBuilt {
            id: id(text),
            why: "nobody needs it".to_owned(),
        });
        let said = References {
            named: named.into(),
            not_built: not_built.into(),
            ..found()
        };
        let page = render(&list(), &said);
        let two = "`inc_01_one`, `inc_01_two`";
        for line in [
            // what a test holds is not taken back by a page
            &format!(
                "| INC-01 | One. | `tests/tests/it/x.rs`: {two} |  | `docs/decisions.md` | not built: nobody needs it |"
            ),
            "| INC-02 | Two \\| three. |  |  | `docs/decisions.md` |  |",
            "| A-01 | Four. |  | `gateway/src/a.rs` | `docs/decisions.md` |  |",
            "| A-02 | Five. |  |  | `docs/decisions.md` | not built: nobody needs it |",
            "| [INC](#inc-incidents) Incidents | 2 | 1 | 0 | 0 | 1 | 0 | 0 |",
            "| all but INC | 2 | 0 | 0 | 1 | 0 | 1 | 0 |",
        ] {
            has(&page, line);
        }
    }

    #[test]
    fn tests_that_need_another_command_say_so() {
        let text = "#[test]\nfn a_01_holds() {\n}\n";
        for (file, run_by) in [
            ("tests/tests/host/x.rs", " (`make test-host`)"),
            ("tests/tests/chaos/x.rs", " (`make test-chaos`)"),
            ("tests/tests/it/x.rs", ""),
        ] {
            let mentions = scan::source(file, text);
            let page = render(&list(), &of_sources(mentions, Vec::new()));
            has(
                &page,
                &format!("| A-01 | Four. | `{file}`{run_by}: `a_01_holds` |  |  |  |"),
            );
        }
    }

    #[test]
    fn unknown_ids_are_warned_of() {
        assert_eq!(
            summary(&list(), &found()),
            "INC: 1 with a test, 0 partly, 0 code only, 0 a page only, 0 not built by decision, 1 nothing\n\
             others: 0 with a test, 0 partly, 1 code only, 0 a page only, 0 not built by decision, 1 nothing\n\
             warning: gateway/src/a.rs names A-99, which is not in the list\n"
        );
    }
}
