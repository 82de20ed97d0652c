//! The embeddings in host memory, and the model of the training.
use anyhow::{Context, Result, ensure};

/// Rows of all items in host memory. The row of item `i` is row `i`.
///
/// All elements are integers as `f32`. Sums of integers below 2^24 are exact in any order, so a store and its
/// cache can be compared with a [`Model`] bit by bit.
#[derive(Debug)]
pub struct Store {
    rows: Vec<f32>,
    dim: usize,
}

/// Magnitude below which integers and their sums are exact in `f32`.
const EXACT: i32 = 1 << 24;

impl Store {
    /// Creates the rows of so many items before the training.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the memory does not suffice.
    pub fn new(items: u64, dim: usize) -> Result<Self> {
        let first = |index| initial(index) as f32;
        Ok(Self { rows: filled(items, dim, first)?, dim })
    }

    /// Returns the row of an item.
    pub fn row(&self, item: u64) -> &[f32] {
        &self.rows[place(item, self.dim)]
    }

    /// Returns the rows of items, one behind the other.
    pub fn fetch(&self, items: &[u64]) -> Vec<f32> {
        items.iter().flat_map(|item| self.row(*item)).copied().collect()
    }

    /// Replaces the rows of items.
    pub fn write_back(&mut self, items: &[u64], rows: &[f32]) {
        for (item, row) in items.iter().zip(rows.chunks_exact(self.dim)) {
            self.rows[place(*item, self.dim)].copy_from_slice(row);
        }
    }

    /// Adds a row to that of an item.
    pub fn add(&mut self, item: u64, row: &[f32]) {
        let elements = self.rows[place(item, self.dim)].iter_mut().zip(row);
        elements.for_each(|(sum, element)| *sum += element);
    }
}

/// Integer copy of all rows that receives the same gradients: the expected result of the training.
#[derive(Debug)]
pub struct Model {
    rows: Vec<i32>,
    dim: usize,
}

impl Model {
    /// Creates the rows of so many items before the training.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the memory does not suffice.
    pub fn new(items: u64, dim: usize) -> Result<Self> {
        Ok(Self { rows: filled(items, dim, initial)?, dim })
    }

    /// Adds a gradient to the row of an item.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when a sum is too large to be exact in `f32`.
    pub fn add(&mut self, item: u64, row: &[f32]) -> Result<()> {
        for (sum, element) in self.rows[place(item, self.dim)].iter_mut().zip(row) {
            *sum += *element as i32;
            ensure!(
                sum.abs() < EXACT,
                "the row of item {item} has reached {sum}, where f32 is no longer exact: train fewer batches"
            );
        }
        Ok(())
    }

    /// Compares a row with that of an item.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when they differ.
    pub fn check(&self, what: &str, item: u64, row: &[f32]) -> Result<()> {
        let expected = &self.rows[place(item, self.dim)];
        let equal = row.iter().zip(expected).all(|(found, expected)| *found == *expected as f32);
        ensure!(
            equal && row.len() == self.dim,
            "{what}: the row of item {item} is {row:?} and should be {expected:?}; please report this"
        );
        Ok(())
    }

    /// Compares all rows of a store.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when any differs.
    pub fn check_all(&self, store: &Store) -> Result<()> {
        let items = (self.rows.len() / self.dim) as u64;
        (0..items).try_for_each(|item| self.check("after the training", item, store.row(item)))
    }
}

fn filled<T>(items: u64, dim: usize, first: impl Fn(u64) -> T) -> Result<Vec<T>> {
    let remedy =
        || format!("no memory for the rows of {items} items: choose fewer --items or a smaller --dim");
    let len = items.checked_mul(dim as u64).and_then(|len| usize::try_from(len).ok()).with_context(remedy)?;
    let mut rows = Vec::new();
    rows.try_reserve_exact(len).with_context(remedy)?;
    rows.extend((0..len as u64).map(first));
    Ok(rows)
}

fn place(item: u64, dim: usize) -> std::ops::Range<usize> {
    item as usize * dim..(item as usize + 1) * dim
}

/// Returns the element with an index in the rows of all items before the training, in -32..32.
fn initial(index: u64) -> i32 {
    (mixed(index) % 64) as i32 - 32
}

/// Returns the gradient of an item in a batch: integers in -3..=3.
pub fn gradient(item: u64, batch: u64, dim: usize) -> impl Iterator<Item = f32> {
    let seed = mixed(item ^ mixed(batch));
    (0..dim as u64).map(move |element| (mixed(seed ^ element) % 7) as f32 - 3.0)
}

/// Returns pseudorandom bits of a number.
fn mixed(number: u64) -> u64 {
    workloads::value_of(number.wrapping_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_notices_each_difference() {
        let (mut store, mut model) = (Store::new(10, 3).unwrap(), Model::new(10, 3).unwrap());
        model.check_all(&store).unwrap();
        let row: Vec<f32> = gradient(4, 7, 3).collect();
        assert!(row.iter().any(|element| *element != 0.0), "{row:?}");
        model.add(4, &row).unwrap();
        let error = format!("{:#}", model.check_all(&store).unwrap_err());
        assert!(error.contains("the row of item 4"), "{error}");
        store.add(4, &row);
        model.check_all(&store).unwrap();
        store.write_back(&[9, 4], &store.fetch(&[4, 9]));
        assert!(model.check_all(&store).is_err());
        store.write_back(&[9, 4], &store.fetch(&[4, 9]));
        model.check_all(&store).unwrap();
    }

    #[test]
    fn sums_that_are_not_exact_are_errors() {
        let mut model = Model::new(1, 1).unwrap();
        let error = model.add(0, &[EXACT as f32 * 2.0]).unwrap_err();
        assert!(format!("{error:#}").contains("train fewer batches"));
    }

    #[test]
    fn rows_that_exceed_the_memory_are_errors() {
        let error = Store::new(u64::MAX / 8, 8).unwrap_err();
        assert!(format!("{error:#}").contains("fewer --items"));
    }
}
