//! Rules for Markdown pages: links lead somewhere, the book lists each page of `docs`, and quoted code is
//! that of its file.
use crate::files::{File, Violation, find};
use std::collections::BTreeSet;

/// Table of contents of the book, and the folder of its pages.
const SUMMARY: &str = "docs/SUMMARY.md";
const BOOK: &str = "docs/";

/// Start of a marker before a block of code, up to the path of the file that contains the code.
const QUOTE: &str = "<!-- from: ";

/// Reports all violations of these rules.
pub fn check(files: &[File]) -> Vec<Violation> {
    let pages = files.iter().filter(|file| file.path.ends_with(".md"));
    let each = pages.flat_map(|page| links(page, files).into_iter().chain(quotes(page, files)));
    each.chain(summary(files)).collect()
}

/// Reports links to missing files and missing headings.
fn links(page: &File, files: &[File]) -> Vec<Violation> {
    let wrong = |(line, target): (usize, String)| {
        let reason = problem(page, &target, files)?;
        Some(Violation::new(&page.path, line, format!("link to `{target}`: {reason}")))
    };
    targets(&page.text).into_iter().filter_map(wrong).collect()
}

/// Returns why a link of a page leads nowhere.
fn problem(page: &File, target: &str, files: &[File]) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let Some(path) = resolve(&page.path, path) else { return Some("outside of the repository") };
    let folder = format!("{path}/");
    let found = files.iter().find(|file| file.path == path);
    match found {
        None if path.is_empty() || files.iter().any(|file| file.path.starts_with(&folder)) => None,
        None => Some("the repository has no such text file"),
        Some(file)
            if !anchor.is_empty() && path.ends_with(".md") && !anchors(&file.text).contains(anchor) =>
        {
            Some("no heading has this anchor")
        }
        Some(_) => None,
    }
}

/// Returns the path from the root for a link of the file `from`, or `None` if it leaves the repository.
fn resolve(from: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the target of each link of a page, with its line.
fn targets(text: &str) -> Vec<(usize, String)> {
    let plain = without_code(text);
    let mut found = Vec::new();
    for (index, line) in plain.lines().enumerate() {
        let inline = line.match_indices("](").map(|(start, _)| &line[start + 2..]);
        let definition = line.starts_with('[').then(|| line.split_once("]: ")).flatten();
        for rest in inline.chain(definition.map(|(_, rest)| rest)) {
            let end = rest.find([')', ' ']).unwrap_or(rest.len());
            found.push((index + 1, rest[..end].to_owned()));
        }
    }
    found
}

/// Returns a page with blank lines for blocks of code and with spaces for code within lines.
fn without_code(text: &str) -> String {
    let (mut is_block, mut is_span) = (false, false);
    let mut plain = String::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_block ^= is_fence;
        is_span &= !line.trim().is_empty();
        for letter in line.chars().filter(|_| !is_block && !is_fence) {
            is_span ^= letter == '`';
            plain.push(if is_span || letter == '`' { ' ' } else { letter });
        }
        plain.push('\n');
    }
    plain
}

/// Returns the anchors of a page's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_block = false;
    let is_heading = |line: &&str| {
        is_block ^= line.trim_start().starts_with("```");
        !is_block && line.starts_with('#')
    };
    text.lines().filter(is_heading).map(anchor).collect()
}

/// Returns the anchor that GitHub and mdbook give to a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|&letter| letter.is_alphanumeric() || " -_".contains(letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Reports pages that the table of contents does not list exactly once, and entries outside of the book.
fn summary(files: &[File]) -> Vec<Violation> {
    let entries = find(files, SUMMARY).map_or_else(|_| Vec::new(), |summary| targets(&summary.text));
    let listed: Vec<_> =
        entries.iter().filter_map(|(line, entry)| Some((*line, resolve(SUMMARY, entry)?))).collect();
    let is_page = |file: &&File| file.path.starts_with(BOOK) && file.path.ends_with(".md");
    let pages = files.iter().filter(is_page).filter(|file| file.path != SUMMARY);
    let unlisted = pages.filter_map(|page| {
        let count = listed.iter().filter(|(_, path)| *path == page.path).count();
        let reason = format!("{SUMMARY} lists this page {count} times: list it once");
        (count != 1).then(|| Violation::new(&page.path, 0, reason))
    });
    let outside = listed.iter().filter(|(_, path)| !path.starts_with(BOOK));
    let reason = |path| format!("`{path}` is not in {BOOK}: a book has only pages of its folder");
    unlisted.chain(outside.map(|(line, path)| Violation::new(SUMMARY, *line, reason(path)))).collect()
}

/// Reports quoted code that its file does not contain.
fn quotes(page: &File, files: &[File]) -> Vec<Violation> {
    let starts = page.text.match_indices(QUOTE).map(|(start, _)| start);
    let wrong = |start: usize| {
        let is_right = quoted(&page.text[start + QUOTE.len()..])
            .is_some_and(|(path, code)| find(files, path).is_ok_and(|file| file.text.contains(code)));
        let line = 1 + page.text[..start].matches('\n').count();
        (!is_right).then(|| Violation::new(&page.path, line, "the named file does not contain this code"))
    };
    starts.filter_map(wrong).collect()
}

/// Returns the path of a marker and the code of the block that follows.
fn quoted(rest: &str) -> Option<(&str, &str)> {
    let (path, rest) = rest.split_once(" -->\n```")?;
    let (_language, rest) = rest.split_once('\n')?;
    Some((path, &rest[..rest.find("```")?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(path, text)| File::new(path, *text)).collect();
        check(&files).iter().map(ToString::to_string).collect()
    }

    const SECOND: (&str, &str) = ("guide/two.md", "# First steps: `run` it\n```sh\n# No heading\n```\n");

    #[test]
    fn links_lead_to_files_and_headings() {
        for good in [
            "[a](guide/two.md)",
            "[a](guide) and [b](./guide/)",
            "[a](guide/two.md#first-steps-run-it)",
            "[`a`](guide/two.md \"title\")",
            "[a](https://example.org/x.md), [b](mailto:a@example.org)",
            "# Here\n[a](#here)",
            "`[a](nowhere.md)` and `code that\nwraps [a](nowhere.md)`",
            "```text\n[a](nowhere.md)\n```",
            "[a]: guide/two.md",
        ] {
            assert_eq!(reasons(&[("README.md", good), SECOND]), [""; 0], "{good}");
        }
        for (bad, reason) in [
            ("[a](two.md)", "link to `two.md`: the repository has no such text file"),
            ("![a](guide/two.svg)", "link to `guide/two.svg`: the repository has no such text file"),
            ("[a](../two.md)", "link to `../two.md`: outside of the repository"),
            ("[a](guide/two.md#no-heading)", "link to `guide/two.md#no-heading`: no heading has this anchor"),
            ("[a](#here)", "link to `#here`: no heading has this anchor"),
            ("[a]: two.md", "link to `two.md`: the repository has no such text file"),
            ("`a` [b](two.md) `c`", "link to `two.md`: the repository has no such text file"),
        ] {
            let page = format!("text\n```sh\ncode\n```\n{bad}");
            assert_eq!(reasons(&[("README.md", &page), SECOND]), [format!("README.md:5: {reason}")]);
        }
        assert_eq!(reasons(&[("guide/one.md", "[a](two.md), [b](../README.md)"), SECOND]).len(), 1);
    }

    #[test]
    fn the_book_lists_each_page_once() {
        let (page, other) = (("docs/one.md", ""), ("README.md", ""));
        assert_eq!(reasons(&[(SUMMARY, "- [One](one.md)"), page, other]), [""; 0]);
        let count = |count| format!("docs/one.md:0: {SUMMARY} lists this page {count} times: list it once");
        assert_eq!(reasons(&[(SUMMARY, ""), page]), [count(0)]);
        assert_eq!(reasons(&[page]), [count(0)]);
        assert_eq!(reasons(&[(SUMMARY, "- [One](one.md)\n- [1](./one.md)"), page]), [count(2)]);
        let outside = "docs/SUMMARY.md:1: `README.md` is not in docs/: a book has only pages of its folder";
        assert_eq!(reasons(&[(SUMMARY, "- [Start](../README.md)"), other]), [outside]);
    }

    #[test]
    fn quoted_code_is_that_of_its_file() {
        let code = ("a.rs", "fn a() {}\n\nfn b() {}\n");
        let page = |path: &str, code: &str| format!("Text.\n<!-- from: {path} -->\n```rust\n{code}```\n");
        assert_eq!(reasons(&[("b.md", &page("a.rs", "fn b() {}\n")), code]), [""; 0]);
        let wrong = ["b.md:2: the named file does not contain this code"];
        assert_eq!(reasons(&[("b.md", &page("a.rs", "fn c() {}\n")), code]), wrong);
        assert_eq!(reasons(&[("b.md", &page("c.rs", "fn b() {}\n")), code]), wrong);
        assert_eq!(reasons(&[("b.md", "Text.\n<!-- from: a.rs -->\nNo code."), code]), wrong);
    }
}
