//! Built-in suites from `benches/suites`, and suites in other files.
use super::suite::{Error, Suite};
use std::fs;

const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/suites.rs"));

/// Suite that measures the limits of the machine: an operation for each limit.
pub const LIMITS: &str = "limits";

/// Suites that run when none is named.
pub const DEFAULT: &[&str] = &[LIMITS, "hashmap/load-factor", "slabhash/fig4"];

/// Returns all built-in suites, ordered by name.
///
/// # Errors
/// Returns the [`Error`] of the first invalid file. A test ensures that the built-in files are valid.
pub fn all() -> Result<Vec<Suite>, Error> {
    FILES.iter().map(|(name, text)| Suite::parse(name, text)).collect()
}

/// Returns the suites with these names. The name of a family selects all its suites, and a name that ends in
/// `.toml` selects the suite in that file. Without names, returns [`DEFAULT`].
///
/// # Errors
/// - [`Error::Unknown`], with the existing names, when there is no such suite.
/// - [`Error::Unreadable`] when a file cannot be read, and the errors of [`Suite::parse`] for its contents.
pub fn select(names: &[String]) -> Result<Vec<Suite>, Error> {
    let all = all()?;
    if names.is_empty() || names == ["default"] {
        return Ok(all.into_iter().filter(|suite| DEFAULT.contains(&suite.name.as_str())).collect());
    }
    let mut selected: Vec<Suite> = Vec::new();
    for name in names {
        if let Some(stem) = name.strip_suffix(".toml") {
            selected.push(Suite::parse(stem, &read(name)?)?);
            continue;
        }
        let family = format!("{name}/");
        let mut found =
            all.iter().filter(|suite| suite.name == *name || suite.name.starts_with(&family)).peekable();
        if found.peek().is_none() {
            let known = all.iter().map(|suite| suite.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(Error::Unknown { asked: name.clone(), known });
        }
        let new: Vec<_> = found.filter(|suite| !selected.contains(suite)).cloned().collect();
        selected.extend(new);
    }
    Ok(selected)
}

fn read(file: &str) -> Result<String, Error> {
    fs::read_to_string(file).map_err(|source| Error::Unreadable { file: file.to_owned(), source })
}

/// Returns the first case of a part of a suite, as the emulator runs it.
#[cfg(test)]
pub(crate) fn first_case(suite: &str, part: usize) -> crate::engine::suite::Case {
    emulated_cases(suite).swap_remove(part).remove(0)
}

/// Returns the first case of a suite on the emulator with this operation.
#[cfg(all(test, feature = "persistent"))]
pub(crate) fn case_with_op(suite: &str, op: &str) -> crate::engine::suite::Case {
    let mut cases = emulated_cases(suite).into_iter().flatten();
    cases.find(|case| case.op == op).unwrap_or_else(|| panic!("{suite} has no {op}"))
}

/// Returns the cases of a suite on the emulator, by parts.
#[cfg(test)]
fn emulated_cases(suite: &str) -> Vec<Vec<crate::engine::suite::Case>> {
    let selection = crate::engine::suite::Selection { emulator: true, quick: true, reps: None };
    let suite = select(&[suite.to_owned()]).unwrap().remove(0);
    suite.parts().iter().map(|part| part.cases(selection, &[])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_suite_is_right_and_every_default_exists() {
        let all = all().unwrap();
        assert!(DEFAULT.iter().all(|name| all.iter().any(|suite| suite.name == *name)));
        assert_eq!(select(&[]).unwrap().len(), DEFAULT.len());
    }

    #[test]
    fn names_and_families_select() {
        let names = |asked: &[&str]| -> Vec<String> {
            let asked: Vec<_> = asked.iter().map(|name| (*name).to_owned()).collect();
            select(&asked).unwrap().into_iter().map(|suite| suite.name).collect()
        };
        assert_eq!(names(&["hashmap/load-factor"]), ["hashmap/load-factor"]);
        assert_eq!(names(&["limits", "limits"]), ["limits"]);
        assert!(names(&["hashmap"]).len() >= 3);
        let figures = ["fig4", "fig5", "fig6", "fig7a", "fig7b", "multi", "rate"]
            .map(|name| format!("slabhash/{name}"));
        assert_eq!(names(&["slabhash"]), figures);
        let error = select(&["hashmap/none".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("hashmap/none") && error.contains("hashmap/load-factor"), "{error}");
        assert!(error.contains(".toml"), "{error}");
    }

    #[test]
    fn files_are_suites_of_their_own() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/suites/btree/coupling.toml");
        let suites = select(&[file.to_owned(), "limits".to_owned()]).unwrap();
        assert_eq!(suites.len(), 2);
        assert!(suites[0].name.ends_with("suites/btree/coupling"));
        let error = select(&["no/such.toml".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("no/such.toml"), "{error}");
    }
}
