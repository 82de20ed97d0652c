//! Extraction of one kernel from a program's PTX text.
//!
//! The driver compiles all entries of a module when it loads the module. That takes seconds for a program of
//! a few hundred kernels, of which a process uses a few. Therefore each kernel is loaded as a separate
//! module: its entry, and all functions and variables that the entry needs, directly or indirectly.
//!
//! The text is only split between top-level statements, never changed within one. A statement is needed when
//! a needed statement contains its name. This may keep an unneeded statement (a label with the name of a
//! variable), which is harmless. It never drops a needed one, since PTX refers to everything by name.
//!
//! ```
//! use gpu::ptx::Module;
//!
//! let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
//!     .visible .entry one(.param .u32 one_0) { ret; }\n.visible .entry two() { ret; }\n";
//! let module = Module::new(text);
//! assert_eq!(module.entries().collect::<Vec<_>>(), ["one", "two"]);
//! let one = module.cut("one").unwrap();
//! assert!(!one.text.contains("two") && one.parameters == [4]);
//! assert!(module.cut("three").is_none());
//! ```
//!
//! # Cost
//!
//! `Module::new` reads the text once on the host, O(bytes). `entries` reads one word per statement. `cut`
//! copies the needed statements and reads each of them once. Nothing accesses a device.
use std::collections::HashMap;
use std::ops::Range;

/// The statements of a module, parsed once, so that extracting an entry is fast.
#[derive(Debug)]
pub struct Module<'a> {
    text: &'a str,
    statements: Vec<Statement<'a>>,
    by_name: HashMap<&'a str, Vec<usize>>,
}

/// One kernel as a separate module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Text of the module.
    pub text: String,
    /// Size of each parameter, in bytes.
    pub parameters: Vec<usize>,
}

#[derive(Debug)]
struct Statement<'a> {
    kind: Kind<'a>,
    span: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind<'a> {
    /// Needed by every entry: `.version`, `.target`, `.address_size`, `.file`, `.pragma`, and the strings of
    /// debug information.
    Common,
    /// Needed by no entry: other debug information, which names everything.
    Debug,
    Entry(&'a str),
    /// Needed when named: `.func`, variables, `.alias`.
    Named,
}

impl<'a> Module<'a> {
    /// Parses the statements of a module.
    pub fn new(text: &'a str) -> Self {
        let mut module = Self { text, statements: Vec::new(), by_name: HashMap::new() };
        let mut tokens = Tokens::new(text);
        while let Some(statement) = module.statement(&mut tokens) {
            module.statements.push(statement);
        }
        module
    }

    /// Returns the names of the kernels, in order.
    pub fn entries(&self) -> impl Iterator<Item = &'a str> {
        self.statements.iter().filter_map(|statement| match statement.kind {
            Kind::Entry(name) => Some(name),
            _ => None,
        })
    }

    /// Extracts the kernel `name` as a separate module, if it exists.
    pub fn cut(&self, name: &str) -> Option<Entry> {
        let entry = self.statements.iter().position(|statement| statement.kind == Kind::Entry(name))?;
        let needed = self.needed(entry);
        let mut text = String::new();
        for (statement, needed) in self.statements.iter().zip(needed) {
            if needed {
                text.push_str(&self.text[statement.span.clone()]);
                text.push('\n');
            }
        }
        let parameters = parameters(&self.text[self.statements[entry].span.clone()]);
        Some(Entry { text, parameters })
    }

    /// Returns, per statement, whether the statement at `entry` needs it.
    fn needed(&self, entry: usize) -> Vec<bool> {
        let mut needed: Vec<bool> =
            self.statements.iter().map(|statement| statement.kind == Kind::Common).collect();
        needed[entry] = true;
        let mut unread = vec![entry];
        while let Some(index) = unread.pop() {
            let words = Tokens::new(&self.text[self.statements[index].span.clone()]).filter_map(Text::word);
            for &other in words.filter_map(|word| self.by_name.get(word)).flatten() {
                if !std::mem::replace(&mut needed[other], true) {
                    unread.push(other);
                }
            }
        }
        needed
    }

    /// Parses the next statement and records the names that it declares.
    fn statement(&mut self, tokens: &mut Tokens<'a>) -> Option<Statement<'a>> {
        let first = tokens.next()?;
        let start = tokens.start;
        if let Text::Word(".version" | ".target" | ".address_size" | ".file") = first {
            tokens.skip_line();
            return Some(Statement { kind: Kind::Common, span: start..tokens.at });
        }
        let mut head = Head { index: self.statements.len(), ..Head::default() };
        let mut token = Some(first);
        while let Some(text) = token {
            if head.ends(text) {
                break;
            }
            if let Some(name) = head.names(text) {
                self.by_name.entry(name).or_default().push(head.index);
            }
            token = tokens.next();
        }
        Some(Statement { kind: head.kind(), span: start..tokens.at })
    }
}

/// State of a statement while it is parsed.
#[derive(Default)]
struct Head<'a> {
    index: usize,
    shape: Shape,
    name: Option<&'a str>,
    parentheses: usize,
    braces: usize,
    first_section: Option<&'a str>,
    /// Whether the parser is after a variable's `=`, where names are used and not declared.
    in_value: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Ends with a semicolon outside of braces: variables, `.alias`, `.pragma`.
    #[default]
    Plain,
    Pragma,
    /// This and the next two end with their closing brace, or with a semicolon if they are only declared.
    Function,
    Entry,
    Section,
}

impl<'a> Head<'a> {
    /// Processes the next token; returns `true` if it ends the statement.
    fn ends(&mut self, text: Text<'a>) -> bool {
        match text {
            Text::Word(word) if self.parentheses + self.braces == 0 => self.directive(word),
            Text::Mark(b'(') => self.parentheses += 1,
            Text::Mark(b')') => self.parentheses = self.parentheses.saturating_sub(1),
            Text::Mark(b'{') => self.braces += 1,
            Text::Mark(b'}') => {
                self.braces = self.braces.saturating_sub(1);
                return self.braces == 0 && !matches!(self.shape, Shape::Plain | Shape::Pragma);
            }
            Text::Mark(b'=') => self.in_value = true,
            Text::Mark(b',') if self.parentheses + self.braces == 0 => self.in_value = false,
            Text::Mark(b';') => return self.braces == 0,
            _ => {}
        }
        false
    }

    fn directive(&mut self, word: &'a str) {
        match word {
            ".func" => self.shape = Shape::Function,
            ".entry" => self.shape = Shape::Entry,
            ".section" => self.shape = Shape::Section,
            ".pragma" => self.shape = Shape::Pragma,
            _ => {
                let names_section = self.shape == Shape::Section && self.first_section.is_none();
                if names_section {
                    self.first_section = Some(word);
                }
            }
        }
    }

    /// Returns the name that a token declares, if any. A statement may declare several variables.
    fn names(&mut self, text: Text<'a>) -> Option<&'a str> {
        let Text::Word(word) = text else { return None };
        let outside = self.parentheses + self.braces == 0;
        if !is_name(word)
            || self.in_value
            || (self.shape != Shape::Plain && (!outside || self.name.is_some()))
        {
            return None;
        }
        self.name = self.name.or(Some(word));
        matches!(self.shape, Shape::Plain | Shape::Function).then_some(word)
    }

    fn kind(&self) -> Kind<'a> {
        match (self.shape, self.name) {
            (Shape::Pragma, _) => Kind::Common,
            (Shape::Section, _) if self.first_section == Some(".debug_str") => Kind::Common,
            (Shape::Section, _) => Kind::Debug,
            (Shape::Entry, Some(name)) => Kind::Entry(name),
            _ => Kind::Named,
        }
    }
}

/// Returns `true` if a word is a name, not a directive or a number.
fn is_name(word: &str) -> bool {
    !word.starts_with(|first: char| first == '.' || first.is_ascii_digit())
}

/// Returns the size of each parameter of an entry, in bytes: `.param .align 8 .b8 name[24]`, `.param .u64
/// .ptr .global .align 8 name`.
fn parameters(entry: &str) -> Vec<usize> {
    let mut sizes = Vec::new();
    let (mut size, mut count, mut in_brackets) = (0, 1, false);
    for text in Tokens::new(entry) {
        match text {
            Text::Mark(b'[') => in_brackets = true,
            Text::Mark(b']') => in_brackets = false,
            Text::Mark(b',' | b')') if size > 0 => {
                sizes.push(std::mem::take(&mut size) * std::mem::replace(&mut count, 1))
            }
            Text::Word(word) if in_brackets => count = word.parse().unwrap_or(1),
            Text::Word(word) if size == 0 => size = type_bytes(word).unwrap_or(0),
            _ => {}
        }
        if matches!(text, Text::Mark(b')' | b'{')) {
            break;
        }
    }
    sizes
}

/// Returns the size of a fundamental type, in bytes: `.b8` to `.b128`, `.u32`, `.f64`, ...
fn type_bytes(word: &str) -> Option<usize> {
    let bits = word.strip_prefix('.')?.strip_prefix(['b', 'u', 's', 'f'])?;
    bits.parse::<usize>().ok().map(|bits| bits / 8)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text<'a> {
    /// A name, a directive with its dot, or a number.
    Word(&'a str),
    Mark(u8),
}

impl<'a> Text<'a> {
    fn word(self) -> Option<&'a str> {
        match self {
            Text::Word(word) => Some(word),
            Text::Mark(_) => None,
        }
    }
}

/// Iterator over the tokens of PTX; it skips comments and strings.
struct Tokens<'a> {
    text: &'a str,
    /// Start of the last token.
    start: usize,
    /// Start of the remaining text.
    at: usize,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, start: 0, at: 0 }
    }

    fn remaining(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn skip_line(&mut self) {
        self.skip_to(b"\n");
    }

    /// Skips to the position after the next `end`, or to the end of the text.
    fn skip_to(&mut self, end: &[u8]) {
        let found = self.remaining().windows(end.len()).position(|window| window == end);
        self.at = found.map_or(self.text.len(), |found| self.at + found + end.len());
    }

    /// Skips the string at the current position.
    fn skip_string(&mut self) {
        let mut escaped = false;
        for (index, &byte) in self.remaining().iter().enumerate().skip(1) {
            if byte == b'"' && !escaped {
                self.at += index + 1;
                return;
            }
            escaped = byte == b'\\' && !escaped;
        }
        self.at = self.text.len();
    }

    fn word_length(&self) -> usize {
        let is_word =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%') || *byte >= 128;
        let rest = self.remaining();
        let dot = usize::from(rest.first() == Some(&b'.'));
        let body = rest[dot..].iter().take_while(|byte| is_word(byte)).count();
        if body == 0 { 0 } else { dot + body }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Text<'a>;

    fn next(&mut self) -> Option<Text<'a>> {
        loop {
            match self.remaining() {
                [] => return None,
                [b'/', b'/', ..] => self.skip_line(),
                [b'/', b'*', ..] => self.skip_to(b"*/"),
                [b'"', ..] => self.skip_string(),
                [space, ..] if space.is_ascii_whitespace() => self.at += 1,
                [first, ..] => {
                    let length = self.word_length();
                    self.start = self.at;
                    self.at += length.max(1);
                    let word = &self.text[self.start..self.start + length];
                    return Some(if length > 0 { Text::Word(word) } else { Text::Mark(*first) });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
