//! Lines of kernel source: of an access that is executed, in failures, and as tests name them.
use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::path::PathBuf;

/// Location in kernel source of an access, a collective, a barrier or a fence.
pub type Site = &'static Location<'static>;

/// A line of kernel source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// File, as passed to the compiler.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl From<&Location<'_>> for SourceLine {
    fn from(site: &Location<'_>) -> Self {
        Self { file: site.file().to_owned(), line: site.line(), column: site.column() }
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The operations of kernels at one place of the source, named by a text in a function of a file.
///
/// The name does not contain a line number, so edits elsewhere in the file do not affect it. The text must
/// contain the name of the called function: a call `node.tail().store(word)` is at `store`. A function that
/// is `#[track_caller]` has no sites; its operations are at the call.
///
/// ```
/// use simt::emulator::SiteId;
///
/// // Tests run in the directory of their package: this one is `simt`.
/// let site = SiteId::find("src/hash.rs", "reduce", "mixed as u64")?;
/// assert_eq!(site, SiteId::find_nth("src/hash.rs", "reduce", "mixed as u64", 0)?);
/// assert!(site.to_string().starts_with("`mixed as u64` in reduce at src/hash.rs:"));
/// assert_eq!(SiteId::line("src/hash.rs", 7).to_string(), "src/hash.rs:7");
/// assert!(SiteId::find("src/hash.rs", "reduce", "x").is_err());
/// # Ok::<(), simt::emulator::SiteError>(())
/// ```
///
/// # Cost
///
/// `find` and `find_nth` read the file on each call, O(bytes) on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteId {
    file: String,
    function: String,
    text: String,
    line: u32,
    columns: Range<u32>,
}

/// Error of the search for a site.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SiteError {
    /// The file is in no directory above the current one, or is not readable.
    #[error("no directory from the current one upwards has a readable file `{file}`")]
    NoFile {
        /// Name of the file.
        file: String,
    },
    /// The text occurs too rarely in the functions of this name, or more often than once where one occurrence
    /// is required.
    #[error("`{text}` occurs {count} times in the functions `{function}` of {file}")]
    Count {
        /// Name of the file.
        file: String,
        /// Name of the function.
        function: String,
        /// Text searched for.
        text: String,
        /// Number of lines that contain the text.
        count: usize,
    },
}

impl SiteId {
    /// Finds the only line with `text` in the functions named `function` of `file`.
    ///
    /// The name of the file is relative to the current directory or to a directory above it: tests run in the
    /// directory of their package, so the names of files of other packages begin at the workspace.
    ///
    /// # Errors
    /// - [`SiteError::NoFile`] if there is no such file.
    /// - [`SiteError::Count`] unless exactly one line contains the text.
    pub fn find(file: &str, function: &str, text: &str) -> Result<Self, SiteError> {
        let mut found = Self::find_all(file, function, text)?;
        match (found.pop(), found.len()) {
            (Some(site), 0) => Ok(site),
            (last, others) => Err(no_site(file, function, text, others + usize::from(last.is_some()))),
        }
    }

    /// Finds the line with occurrence `index`, from 0, of `text` in the functions named `function` of `file`.
    ///
    /// # Errors
    /// - [`SiteError::NoFile`] if there is no such file.
    /// - [`SiteError::Count`] if the text does not occur so often.
    pub fn find_nth(file: &str, function: &str, text: &str, index: usize) -> Result<Self, SiteError> {
        let mut found = Self::find_all(file, function, text)?;
        let count = found.len();
        if index < count { Ok(found.swap_remove(index)) } else { Err(no_site(file, function, text, count)) }
    }

    /// Names all operations of a line, from 1, of a file as the compiler names it. An edit above the line
    /// makes the name wrong, unless the line comes from [`line!`].
    pub fn line(file: &str, line: u32) -> Self {
        let [file, function, text] = [file, "", ""].map(str::to_owned);
        Self { file, function, text, line, columns: 0..u32::MAX }
    }

    /// Names the operations at a line and column, from 1, of a file as the compiler names it.
    pub(super) fn at(file: &str, line: u32, column: u32) -> Self {
        Self { columns: column..column + 1, ..Self::line(file, line) }
    }

    fn find_all(file: &str, function: &str, text: &str) -> Result<Vec<Self>, SiteError> {
        let source = read_source(file).ok_or_else(|| SiteError::NoFile { file: file.to_owned() })?;
        let lines: Vec<&str> = source.lines().collect();
        let in_functions = bodies(&lines, function).flatten();
        let found = in_functions.filter_map(|index| {
            let start = lines[index].find(text)?;
            let before = lines[index][..start].chars().count() as u32;
            let columns = before + 1..before + 1 + text.chars().count() as u32;
            let [file, function, text] = [file, function, text].map(str::to_owned);
            Some(Self { file, function, text, line: index as u32 + 1, columns })
        });
        Ok(found.collect())
    }

    /// Returns `true` if an operation at `site` is meant.
    pub(super) fn is_at(&self, site: Site) -> bool {
        let before = site.file().strip_suffix(&self.file);
        before.is_some_and(|before| before.is_empty() || before.ends_with(['/', '\\']))
            && site.line() == self.line
            && self.columns.contains(&site.column())
    }
}

impl fmt::Display for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.text.is_empty() {
            write!(f, "`{}` in {} at ", self.text, self.function)?;
        }
        write!(f, "{}:{}", self.file, self.line)
    }
}

fn no_site(file: &str, function: &str, text: &str, count: usize) -> SiteError {
    let [file, function, text] = [file, function, text].map(str::to_owned);
    SiteError::Count { file, function, text, count }
}

/// Reads a file of the current directory, or else of the closest directory above that has one of this name.
fn read_source(file: &str) -> Option<String> {
    let here = std::env::current_dir().ok()?;
    let path: PathBuf = here.ancestors().map(|folder| folder.join(file)).find(|path| path.is_file())?;
    std::fs::read_to_string(path).ok()
}

/// Returns the lines of each function of this name. The source is formatted: a function ends at the first
/// closing brace that is indented as its head.
fn bodies<'a>(lines: &'a [&str], function: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    let heads = (0..lines.len()).filter(move |&index| declares(lines[index], function));
    heads.map(|head| {
        let indent = indentation(lines[head]);
        let closes = |line: &str| indentation(line) == indent && line.trim_start().starts_with('}');
        let is_one_line = lines[head].trim_end().ends_with(['}', ';']);
        let rest = lines[head + 1..].iter().take_while(|line| !is_one_line && !closes(line)).count();
        head..head + 1 + rest
    })
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns `true` if the line is the head of a function of this name.
fn declares(line: &str, function: &str) -> bool {
    let rest = line.split_once("fn ").and_then(|(_, name)| name.strip_prefix(function));
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}
