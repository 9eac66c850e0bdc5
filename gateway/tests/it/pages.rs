//! The shell blocks of the documentation: each command of the program is one that it takes, and each call of the API has a route and
//! a body that the contract has. Pages whose blocks are marked as examples are run against a whole system besides
//! (`tests/tests/host/docs.rs`).
use std::path::PathBuf;

use gpuaas_dev::paths;
use gpuaas_gateway::contract::route::{Lookup, RouteTable};
use gpuaas_gateway::transcode::request::bind;
use http::Method;

/// A page by its path, with its text.
fn pages() -> Vec<(String, String)> {
    let root = paths::checkout();
    let mut found = vec![root.join("README.md")];
    for folder in ["docs", "docs/how-to", "docs/runbooks"] {
        let files = std::fs::read_dir(root.join(folder)).expect("a folder of pages");
        let files = files.map(|file| file.expect("a page").path());
        found.extend(files.filter(|path| path.extension().is_some_and(|it| it == "md")));
    }
    let read = |path: PathBuf| {
        let page = std::fs::read_to_string(&path).expect("a page");
        let path = path.strip_prefix(&root).expect("below it");
        (path.display().to_string(), page)
    };
    found.into_iter().map(read).collect()
}

/// A simple command of a shell block: the number of its last line, and its words.
type Simple = (usize, Vec<String>);

/// The simple commands of the shell blocks of a page.
fn commands(page: &str) -> Vec<Simple> {
    let (mut found, mut is_shell, mut line) = (Vec::new(), false, String::new());
    for (at, text) in page.lines().enumerate() {
        if let Some(kind) = text.trim_start().strip_prefix("```") {
            is_shell = !is_shell && ["sh", "bash"].contains(&kind);
            line.clear();
        } else if is_shell {
            if let Some(begun) = text.strip_suffix('\\') {
                line.push_str(begun);
                continue;
            }
            line.push_str(text);
            match simple(&line) {
                Some(all) => {
                    found.extend(all.into_iter().map(|words| (at + 1, words)));
                    line.clear();
                }
                None => line.push('\n'),
            }
        }
    }
    found
}

/// The simple commands of a line, as far as pages use the shell; none where a quote goes on in the next line.
fn simple(line: &str) -> Option<Vec<Vec<String>>> {
    let (mut done, mut words) = (Vec::new(), Vec::new());
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut before = ' ';
    for one in line.chars() {
        match (quote, one) {
            // what is escaped inside of quotes is itself
            (Some('"'), '\\') if before != '\\' => {}
            (Some('"'), '"') if before == '\\' => word.get_or_insert_default().push(one),
            (Some(open), one) if open == one => quote = None,
            (Some(_), one) => word.get_or_insert_default().push(one),
            (None, '"' | '\'') => {
                quote = Some(one);
                word.get_or_insert_default();
            }
            (None, '#') if before.is_whitespace() => break,
            (None, '|' | ';' | '&' | '(' | ')' | '<' | '>') => {
                words.extend(word.take());
                done.push(std::mem::take(&mut words));
            }
            (None, one) if one.is_whitespace() => words.extend(word.take()),
            (None, one) => word.get_or_insert_default().push(one),
        }
        before = one;
    }
    words.extend(word);
    done.push(words);
    quote.is_none().then_some(done)
}

/// What comes after a program in a simple command that calls it.
fn arguments<'a>(words: &'a [String], program: &str) -> Option<&'a [String]> {
    let at = words.iter().position(|word| !word.contains('='))?;
    let is_it = words[at].rsplit('/').next() == Some(program);
    Some(&words[at + 1..]).filter(|rest| is_it && !rest.is_empty())
}

/// Whether a page leaves something to its reader here.
fn is_open(word: &str) -> bool {
    word.contains(['…', '$'])
}

/// Why the program does not take these arguments: not because of what a page leaves open.
fn not_taken(arguments: &[String]) -> Option<String> {
    let said = arguments.iter().filter(|word| *word != "…");
    let typed = std::iter::once("gpuaas").chain(said.map(String::as_str));
    let error = gpuaas_cli::command().try_get_matches_from(typed).err()?;
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let lacks = first.ends_with("required arguments were not provided:");
    let value = first.strip_prefix("error: invalid value '");
    let value = value.and_then(|rest| rest.split('\'').next());
    let is_forgiven = error.exit_code() == 0
        || (lacks && arguments.iter().any(|word| word == "…"))
        || value.is_some_and(is_open);
    (!is_forgiven).then(|| first.to_owned())
}

#[test]
fn each_command_of_the_documentation_is_one_of_the_program() {
    let (mut count, mut wrong) = (0, Vec::new());
    for (path, page) in pages() {
        for (line, words) in commands(&page) {
            let Some(arguments) = arguments(&words, "gpuaas") else {
                continue;
            };
            count += 1;
            if let Some(why) = not_taken(arguments) {
                wrong.push(format!("{path}:{line}: {}: {why}", arguments.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 200, "{count} commands");
}

/// What a call of curl sends: method, target below the address, and body.
fn sent(arguments: &[String]) -> Option<(Method, String, String)> {
    let after = |flags: [&str; 2]| {
        let at = arguments.iter().position(|it| flags.contains(&it.as_str()));
        at.and_then(|at| arguments.get(at + 1)).cloned()
    };
    let url = arguments.iter().find(|it| it.contains("/api/v1/"))?;
    let target = &url[url.find("/api/v1/")?..];
    let body = after(["-d", "--data"]);
    let method = match (after(["-X", "--request"]), &body) {
        (Some(method), _) => method.parse().ok()?,
        (None, Some(_)) => Method::POST,
        (None, None) => Method::GET,
    };
    Some((method, target.to_owned(), body.unwrap_or_default()))
}

/// Why the contract does not have a call.
fn refused(routes: &RouteTable, (method, target, body): (&Method, &str, &str)) -> Option<String> {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let Lookup::Found(route, variables) = routes.lookup(method, path) else {
        return Some("there is no such route".to_owned());
    };
    let refused = bind(route, &variables, query, body.as_bytes()).err()?;
    // a page may show what is refused when something is left out
    let lacks = refused.reason() == "FIELD_REQUIRED";
    (!lacks).then(|| format!("{refused:?}"))
}

#[test]
fn each_call_of_the_documentation_is_one_of_the_contract() {
    let routes = gpuaas_gateway::routes().expect("served");
    let (mut count, mut wrong) = (0, Vec::new());
    for (path, page) in pages() {
        for (line, words) in commands(&page) {
            let call = arguments(&words, "curl").and_then(sent);
            let Some((method, target, body)) = call else {
                continue;
            };
            count += 1;
            if let Some(why) = refused(&routes, (&method, &target, &body)) {
                wrong.push(format!("{path}:{line}: {method} {target} {body}: {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 10, "{count} calls");
}

#[test]
fn commands_are_found_as_people_write_them_and_wrong_calls_are_seen() {
    let page = "```sh\nexport A=$(gpuaas a --b 'c d') # gpuaas no\nX=1 target/debug/gpuaas e \\\n  f | jq g; gpuaas h > i\ngpuaas k 'l\nm'\n```\ngpuaas j\n";
    let found = commands(page).into_iter().filter_map(|(line, words)| {
        let arguments = arguments(&words, "gpuaas")?;
        Some((line, arguments.join(",")))
    });
    let expected = [(2, "a,--b,c d"), (4, "e,f"), (4, "h"), (6, "k,l\nm")];
    let expected = expected.map(|(line, words)| (line, words.to_owned()));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    for (line, is_taken) in [
        ("gpuaas list --all", true),
        ("gpuaas list --al", false),
        ("gpuaas lst", false),
        ("gpuaas launch … --count 2", true),
        ("gpuaas launch --count 2", false),
        ("gpuaas launch … --count many", false),
        ("gpuaas launch … --count $N", true),
    ] {
        let words = simple(line).expect("whole").remove(0);
        let why = not_taken(arguments(&words, "gpuaas").expect("a command"));
        assert_eq!(why.is_none(), is_taken, "{line}: {why:?}");
    }

    let routes = gpuaas_gateway::routes().expect("served");
    let call = |line: &str| {
        let words = simple(line).expect("whole").remove(0);
        let (method, target, body) = sent(&words[1..]).expect("a call");
        refused(&routes, (&method, &target, &body))
    };
    assert_eq!(call("curl \"$API/api/v1/skus\""), None);
    for wrong in [
        "curl \"$API/api/v1/nothing\"",
        "curl -X PUT \"$API/api/v1/skus\"",
        "curl \"$API/api/v1/skus?colour=red\"",
        "curl \"$API/api/v1/projects\" -d '{\"sllug\": \"a\"}'",
    ] {
        assert!(call(wrong).is_some(), "{wrong}");
    }
}
