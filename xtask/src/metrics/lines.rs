//! Counts of lines.
use super::Metric;
use crate::files::File;
use crate::tidy::is_too_long;
use std::collections::HashMap;

/// Lines that a function has at most.
const LONGEST_FUNCTION: usize = 60;
/// So many equal lines in two places are a block that stands twice.
const BLOCK: usize = 20;

/// Returns the numbers of lines of code (neither blank nor comments), of lines of attributes that every
/// device function repeats, of lines that are too long, and of functions that are.
pub fn count(folder: &str, files: &[&File]) -> [Metric; 5] {
    let lines = || files.iter().flat_map(|file| file.text.lines()).map(str::trim);
    let is_attribute = |line: &&str| {
        matches!(*line, "#[inline(always)]" | "#[track_caller]" | "#[device]" | "#[device(caller)]")
    };
    let long_lines = files.iter().flat_map(|file| file.text.lines()).filter(|line| is_too_long(line)).count();
    let mut lengths: Vec<usize> = files.iter().flat_map(|file| functions(&file.text)).collect();
    lengths.sort_unstable();
    let long = lengths.iter().filter(|length| **length > LONGEST_FUNCTION).count();
    [
        ("lines of code", lines().filter(is_code).count()),
        ("lines of attributes that device functions repeat", lines().filter(is_attribute).count()),
        ("lines over 110 columns", long_lines),
        ("functions over 60 lines", long),
        ("lines of the median function", lengths.get(lengths.len() / 2).copied().unwrap_or(0)),
    ]
    .map(|(what, value)| Metric::new(folder, what, value))
}

/// Whether a trimmed line is neither blank nor a comment.
fn is_code(line: &&str) -> bool {
    !line.is_empty() && !line.starts_with("//")
}

/// Returns the lengths in lines of the functions with a body. In formatted code a body ends at the brace
/// below the beginning of its signature.
fn functions(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().take_while(|word| !word.contains('(')).collect();
        !line.trim().starts_with("//") && line.split_whitespace().any(|word| word == "fn") && words.len() < 6
    };
    let length = |start: usize| {
        let indent = &lines[start][..lines[start].len() - lines[start].trim_start().len()];
        let signature = lines[start..].iter().position(|line| line.ends_with(['{', ';', '}']))?;
        if !lines[start + signature].ends_with('{') {
            return lines[start + signature].ends_with('}').then_some(signature + 1);
        }
        let end = format!("{indent}}}");
        Some(lines[start + signature..].iter().position(|line| *line == end)? + signature + 1)
    };
    (0..lines.len()).filter(|&start| begins(lines[start])).filter_map(length).collect()
}

/// Returns the number of blocks of [`BLOCK`] equal lines or more that stand in two places. Blank lines,
/// comments and the indentation of lines do not count.
pub fn repeated(of: &str, files: &[&File]) -> Metric {
    let mut seen: HashMap<Vec<&str>, usize> = HashMap::new();
    let mut blocks = 0;
    for (number, file) in files.iter().enumerate() {
        let lines: Vec<&str> = file.text.lines().map(str::trim).filter(is_code).collect();
        let mut was_repeated = false;
        for (place, window) in lines.windows(BLOCK).enumerate() {
            let first = *seen.entry(window.to_vec()).or_insert(number << 32 | place);
            let is_repeated = first != (number << 32 | place);
            blocks += usize::from(is_repeated && !was_repeated);
            was_repeated = is_repeated;
        }
    }
    Metric::new(of, "blocks of 20 equal lines or more", blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_as_long_as_their_lines() {
        let text = "fn one() {}\n\n\
            impl X {\n    /// fn of (\n\
            \x20   pub(super) fn two(\n        a: u32,\n    ) -> u32 {\n        a\n    }\n\
            \x20   fn none();\n}\n";
        assert_eq!(functions(text), [1, 5]);
    }

    #[test]
    fn blocks_that_stand_twice_are_counted_once() {
        let block: String = (0..25).map(|n| format!("let a{n} = {n};\n")).collect();
        let (one, two) = (File::new("", block.clone()), File::new("", format!("fn other() {{}}\n{block}")));
        assert_eq!(repeated("x", &[&one, &two]).value, 1.0);
        assert_eq!(repeated("x", &[&one]).value, 0.0);
    }
}
