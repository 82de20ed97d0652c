//! `cargo xtask tidy`: checks rules of the repository that no compiler checks.
mod book;
mod bounds;
mod length;
mod rules;
#[cfg(test)]
mod tests;
mod words;

use crate::figures;
use crate::files::files;
use anyhow::{Result, bail};
pub use bounds::name_of;
pub use rules::is_too_long;
pub use words::left as words_left;

pub fn run() -> Result<()> {
    let files = files()?;
    let each = files.iter().flat_map(rules::check);
    let all = [bounds::check, words::check, figures::check, book::check, length::check];
    let all = all.iter().flat_map(|check| check(&files));
    let violations: Vec<_> = each.chain(all).collect();
    for violation in &violations {
        eprintln!("{violation}");
    }
    match violations.len() {
        0 => println!("{} files are tidy", files.len()),
        count => bail!("{count} rules broken"),
    }
    Ok(())
}
