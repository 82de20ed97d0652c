//! Built PTX.
use crate::{Error, Header, Result};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Functions that the driver itself provides to PTX (CUDA programming guide, "system calls").
const SYSTEM_CALLS: [&str; 5] = ["vprintf", "malloc", "free", "__assertfail", "__nvvm_reflect"];

/// Built PTX: its text, its header and its file.
#[derive(Clone, Debug)]
pub struct Ptx {
    text: String,
    path: PathBuf,
    header: Header,
}

impl Ptx {
    /// Reads PTX that this crate built.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read; [`Error::BadHeader`] when it does not begin with a
    /// [`Header`].
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
        let header = text.parse()?;
        Ok(Self { text, path: path.to_owned(), header })
    }

    /// Returns the whole text, including the header.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the names of the kernels.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.text.lines().filter_map(entry)
    }
}

fn entry(line: &str) -> Option<&str> {
    identifier(line.split_once(".entry")?.1)
}

/// Returns the first word of letters, digits, `_` and `$`.
fn identifier(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let end = text.find(|letter| !is_of_name(letter));
    Some(&text[..end.unwrap_or(text.len())]).filter(|name| !name.is_empty())
}

/// Returns whether names have this letter.
fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

/// Returns the PTX without empty lines and the comments of the compiler, which take 2 % of a package.
/// Comments of `#[kernel]` about registers and arguments stay: machine code is made by them.
pub fn without_comments(text: &str) -> String {
    let is_fact = |comment: &str| comment.starts_with("registers=");
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        let code = match line.split_once("// ") {
            Some((code, comment)) if !is_fact(comment) => code,
            _ if line == "//" => "",
            _ => line,
        };
        let code = code.trim_end();
        if !code.is_empty() {
            kept.push_str(code);
            kept.push('\n');
        }
    }
    kept
}

/// Returns the PTX with short names of parameters, which are visible in their function only: `param_0`,
/// without the function's name before it. The long ones take 2 % of a package.
pub fn with_short_parameters(text: &str) -> String {
    const MARK: &str = "_param_";
    let kernels = text.split(".entry").skip(1).filter_map(identifier);
    let functions: HashSet<&str> =
        text.split(".func").skip(1).filter_map(function_name).chain(kernels).collect();
    let (mut kept, mut end) = (String::with_capacity(text.len()), 0);
    for (at, _) in text.match_indices(MARK) {
        let begin = text[..at].rfind(|letter| !is_of_name(letter)).map_or(0, |before| before + 1);
        if functions.contains(&text[begin..at]) {
            kept.push_str(&text[end..begin]);
            end = at + 1;
        }
    }
    kept + &text[end..]
}

/// Returns the functions and variables that the text declares but does not define, without those of the
/// driver.
pub fn unresolved(text: &str) -> Vec<String> {
    let functions = text.split(".extern .func").skip(1).filter_map(function_name);
    let variables = text.lines().filter(|line| line.contains(".extern .global")).filter_map(variable_name);
    let mut names: Vec<_> =
        functions.chain(variables).filter(|name| !SYSTEM_CALLS.contains(name)).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// Parses the name in `  (.param .b64 func_retval0) name (..` or ` name(..`.
fn function_name(declaration: &str) -> Option<&str> {
    let declaration = declaration.trim_start();
    let after_result = match declaration.strip_prefix('(') {
        Some(rest) => rest.split_once(')')?.1,
        None => declaration,
    };
    identifier(after_result)
}

/// Parses the name in `.extern .global .align 4 .b8 name[16];`.
fn variable_name(line: &str) -> Option<&str> {
    let word = line.split_whitespace().last()?;
    identifier(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_name() {
        assert_eq!(entry(".visible .entry insert__line_u32("), Some("insert__line_u32"));
        assert_eq!(entry("\tret;"), None);
    }

    #[test]
    fn comments_of_the_compiler_are_removed() {
        let text = "//\n// Generated\n//\n\n.version 8.4\n\t// .globl\tone\n.visible .entry one()\n{\n\
            \t// begin inline asm\n\t// registers=40 arguments=8\n\t{ // callseq 8, 0\n\t\
            ret;\n\t} // callseq 8\n}";
        let kept =
            ".version 8.4\n.visible .entry one()\n{\n\t// registers=40 arguments=8\n\t{\n\tret;\n\t}\n}\n";
        assert_eq!(without_comments(text), kept);
    }

    #[test]
    fn names_of_parameters_are_short() {
        let text = ".func (.param .b32 func_retval0) $help(\n\t.param .b64 $help_param_0\n)\n;\n\
            .visible .entry one__x(.param .b64 one__x_param_0, .param .b32 one__x_param_1)\n{\n\
            \tld.param.b64 %rd1, [one__x_param_0+8];\n\tst.param.b64 [param0], my_param_1;\n}\n";
        let short = ".func (.param .b32 func_retval0) $help(\n\t.param .b64 param_0\n)\n;\n\
            .visible .entry one__x(.param .b64 param_0, .param .b32 param_1)\n{\n\
            \tld.param.b64 %rd1, [param_0+8];\n\tst.param.b64 [param0], my_param_1;\n}\n";
        assert_eq!(with_short_parameters(text), short);
    }

    #[test]
    fn what_is_declared_and_not_defined_is_named() {
        let text = ".extern .func  (.param .b32 func_retval0) memcmp\n\
            (\n\t.param .b64 memcmp_param_0\n)\n;\n\
            .extern .func abort()\n;\n\
            .extern .func  (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n\
            .extern .global .align 4 .b8 TABLE[16];\n\
            .extern .shared .align 16 .b8 buffer[];\n\
            .func here() { ret; }";
        assert_eq!(unresolved(text), ["TABLE", "abort", "memcmp"]);
    }
}
