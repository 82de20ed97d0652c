//! Rule for the pages of structures: what precedes the proofs is short.
//!
//! All words before the heading `## Proofs` count, or those of the whole page if it has no such heading. A
//! word is a group of characters between white space that contains a letter or a digit. Words of headings and
//! code within lines count. Blocks of code, tables (those of generated figures too) and HTML comments do not.
use crate::files::{File, Violation};

/// Folder of the pages.
const PAGES: &str = "docs/structures/";

/// Heading at which the count ends.
const PROOFS: &str = "## Proofs";

/// Maximum number of words before the proofs.
const MAX_WORDS: usize = 1500;

/// Reports pages that have more than [`MAX_WORDS`] words before their proofs.
pub fn check(files: &[File]) -> Vec<Violation> {
    let is_page = |file: &&File| file.path.starts_with(PAGES) && file.path.ends_with(".md");
    files.iter().filter(is_page).filter_map(check_page).collect()
}

fn check_page(page: &File) -> Option<Violation> {
    let count = words_before_proofs(&page.text);
    let reason = format!("{count} words before `{PROOFS}`: at most {MAX_WORDS}");
    (count > MAX_WORDS).then(|| Violation::new(&page.path, 0, reason))
}

/// Returns the number of words that count.
fn words_before_proofs(text: &str) -> usize {
    let mut is_block = false;
    let is_outside = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_block ^= is_fence;
        !is_block && !is_fence
    };
    let before = text.lines().filter(is_outside).take_while(|line| line.trim_end() != PROOFS);
    let prose = before.filter(|line| !line.trim_start().starts_with('|'));
    prose.map(|line| words(&without_comments(line))).sum()
}

fn words(line: &str) -> usize {
    line.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// Returns a line without its HTML comments.
fn without_comments(line: &str) -> String {
    let mut parts = line.split("<!--");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| kept + part.split_once("-->").map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(path: &str, text: &str) -> Vec<String> {
        check(&[File::new(path, text)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn prose_before_the_proofs_counts() {
        for (text, words) in [
            ("# A map\n\nIt has `get` and [a link](map.md).", 8),
            ("One.\n```text\n## Proofs\n```\nTwo.", 2),
            ("One.\n```text\ntwo three\n```\n- four – five = 5", 4),
            ("One.\n| two | three |\n  | four | five |", 1),
            ("It is <!-- figures: a -->3<!-- end --> times as fast.\n<!-- from: a.rs -->", 6),
            ("One.\n## Proofs\nTwo.", 1),
            ("One.\n### Proofs\nTwo.", 3),
        ] {
            assert_eq!(words_before_proofs(text), words, "{text}");
        }
    }

    #[test]
    fn pages_of_structures_are_short() {
        let words = |count| "word ".repeat(count);
        let page = "docs/structures/map.md";
        assert_eq!(reasons(page, &words(1500)), [""; 0]);
        let long = format!("{page}:0: 1501 words before `## Proofs`: at most 1500");
        assert_eq!(reasons(page, &words(1501)), [long.as_str()]);
        assert_eq!(reasons(page, &format!("{}\n## Proofs\n{}", words(1499), words(2000))), [""; 0]);
        for other in ["docs/notes/map.md", "docs/structures/figures.toml"] {
            assert_eq!(reasons(other, &words(1501)), [""; 0], "{other}");
        }
    }
}
