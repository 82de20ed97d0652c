//! The tree of taxa.
//!
//! Each taxon has a number, larger than that of its parent; the root has the number 0. So of two taxa on one
//! path from the root, the one with the smaller number is the ancestor. That makes the lowest common ancestor
//! of any number of taxa a minimum, which a table on a device can compute ([`database`](crate::database)).
use anyhow::{Context, Result, anyhow, ensure};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The root, which has all taxa below it.
pub const ROOT: u32 = 0;

/// Name of the root.
pub const ROOT_NAME: &str = "root";

/// Tree of taxa with names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taxonomy {
    names: Vec<String>,
    parents: Vec<u32>,
    numbers: HashMap<String, u32>,
}

impl Default for Taxonomy {
    /// Returns the tree of the root alone.
    fn default() -> Self {
        let numbers = HashMap::from([(ROOT_NAME.to_owned(), ROOT)]);
        Self { names: vec![ROOT_NAME.to_owned()], parents: vec![ROOT], numbers }
    }
}

impl Taxonomy {
    /// Reads a file with a line per taxon: its name, a tab, and the name of its parent. A parent without a
    /// line of its own is below the root. Empty lines and those that begin with `#` are ignored.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the file cannot be read, or is no tree.
    pub fn read(path: &Path) -> Result<Self> {
        let what = || format!("cannot read {}: check the path and its permissions", path.display());
        let text = fs::read_to_string(path).with_context(what)?;
        Self::parse(&text).with_context(|| format!("{} is no taxonomy", path.display()))
    }

    /// Parses the text of such a file.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when a line has no tab, a taxon has two parents, or is its own ancestor.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parents = HashMap::new();
        let lines = text.lines().enumerate();
        for (index, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let (child, parent) = line.split_once('\t').with_context(|| {
                format!("line {}: write a taxon, a tab, and the taxon's parent", index + 1)
            })?;
            let (child, parent) = (child.trim(), parent.trim());
            ensure!(child != ROOT_NAME, "line {}: `{ROOT_NAME}` has no parent", index + 1);
            let before = parents.insert(child, parent);
            ensure!(
                before.is_none_or(|before| before == parent),
                "line {}: {child} has two parents: remove one",
                index + 1
            );
        }
        let mut tree = Self::default();
        // In the order of the names, so that numbers do not depend on that of the hash map.
        let mut children: Vec<_> = parents.keys().copied().collect();
        children.sort_unstable();
        children.into_iter().try_for_each(|child| tree.add_path(child, &parents))?;
        Ok(tree)
    }

    /// Adds a taxon and its ancestors, from the root down.
    fn add_path(&mut self, taxon: &str, parents: &HashMap<&str, &str>) -> Result<()> {
        let mut path = Vec::new();
        let mut next = Some(taxon);
        while let Some(name) = next.filter(|name| !self.numbers.contains_key(*name)) {
            ensure!(path.len() <= parents.len(), "{name} is its own ancestor: remove a line");
            path.push(name);
            next = parents.get(name).copied();
        }
        let mut parent = next.map_or(ROOT, |name| self.numbers[name]);
        for name in path.into_iter().rev() {
            parent = self.add(name, parent)?;
        }
        Ok(())
    }

    fn add(&mut self, name: &str, parent: u32) -> Result<u32> {
        let number = u32::try_from(self.names.len()).map_err(|_| anyhow!("there are too many taxa"))?;
        self.names.push(name.to_owned());
        self.parents.push(parent);
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    /// Returns the number of a taxon. A new one is added below the root.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when there are 2^32 taxa.
    pub fn number_or_add(&mut self, name: &str) -> Result<u32> {
        self.number(name).map_or_else(|| self.add(name, ROOT), Ok)
    }

    /// Returns the number of a taxon.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// Returns the name of a taxon.
    ///
    /// # Panics
    /// Panics if no taxon has the number. So do the methods below.
    pub fn name(&self, taxon: u32) -> &str {
        &self.names[taxon as usize]
    }

    /// Returns the parent of a taxon; the root is its own.
    pub fn parent(&self, taxon: u32) -> u32 {
        self.parents[taxon as usize]
    }

    /// Returns the number of taxa, with the root.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns `false`: there is always a root.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the lowest common ancestor of two taxa, which may be one of them.
    pub fn common(&self, mut left: u32, mut right: u32) -> u32 {
        while left != right {
            // The larger number is no ancestor of the smaller one.
            let larger = if left > right { &mut left } else { &mut right };
            *larger = self.parent(*larger);
        }
        left
    }

    /// Returns whether `ancestor` is on the path from the root to `taxon`.
    pub fn is_above(&self, ancestor: u32, mut taxon: u32) -> bool {
        while taxon > ancestor {
            taxon = self.parent(taxon);
        }
        taxon == ancestor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "# species\tgenus\nE. coli\tEscherichia\nS. enterica\tSalmonella\n\n\
        Escherichia\tEnterobacteriaceae\nSalmonella\tEnterobacteriaceae\nE. albertii\tEscherichia\n";

    #[test]
    fn ancestors_by_name() {
        let tree = Taxonomy::parse(TEXT).unwrap();
        let common = |left, right| {
            let [left, right] = [left, right].map(|name| tree.number(name).unwrap());
            tree.name(tree.common(left, right)).to_owned()
        };
        assert_eq!(common("E. coli", "E. albertii"), "Escherichia");
        assert_eq!(common("E. coli", "S. enterica"), "Enterobacteriaceae");
        assert_eq!(common("Escherichia", "E. coli"), "Escherichia");
        assert_eq!(tree.parent(tree.number("Enterobacteriaceae").unwrap()), ROOT);
    }

    #[test]
    fn new_taxa_are_below_the_root() {
        let mut tree = Taxonomy::parse(TEXT).unwrap();
        let (old, new) = (tree.number_or_add("E. coli").unwrap(), tree.number_or_add("phage").unwrap());
        assert_eq!((old, tree.common(old, new)), (tree.number("E. coli").unwrap(), ROOT));
        assert_eq!((tree.number_or_add("phage").unwrap(), tree.len()), (new, 8));
    }

    #[test]
    fn what_is_no_tree_is_an_error() {
        for (text, expected) in [
            ("a b\n", "line 1: write a taxon"),
            ("a\tb\n\na\tc\n", "line 3: a has two parents"),
            ("a\tb\nb\tc\nc\ta\n", "its own ancestor"),
            ("a\ta\n", "its own ancestor"),
            ("root\ta\n", "has no parent"),
        ] {
            let error = Taxonomy::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    /// Returns a random tree: the parent of taxon i + 1 is one of the taxa 0 to i.
    fn trees() -> impl Strategy<Value = Taxonomy> {
        prop::collection::vec(any::<prop::sample::Index>(), 1..40).prop_map(|parents| {
            let mut tree = Taxonomy::default();
            for (index, parent) in parents.iter().enumerate() {
                tree.add(&format!("taxon{index}"), parent.index(index + 1) as u32).unwrap();
            }
            tree
        })
    }

    fn path(tree: &Taxonomy, taxon: u32) -> Vec<u32> {
        let mut path = vec![taxon];
        while path[path.len() - 1] != ROOT {
            path.push(tree.parent(path[path.len() - 1]));
        }
        path
    }

    proptest! {
        #[test]
        fn common_ancestors_by_the_definition(
            tree in trees(),
            left in any::<prop::sample::Index>(),
            right in any::<prop::sample::Index>(),
        ) {
            let [left, right] = [left, right].map(|index| index.index(tree.len()) as u32);
            let (ancestors, others) = (path(&tree, left), path(&tree, right));
            let lowest = *ancestors.iter().find(|taxon| others.contains(taxon)).unwrap();
            prop_assert_eq!(tree.common(left, right), lowest);
            prop_assert_eq!(tree.is_above(left, right), others.contains(&left));
        }
    }
}
