//! Inputs that several cases share.
use anyhow::Result;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Inputs of the cases so far, by a description of the case.
pub struct Inputs<T>(RefCell<BTreeMap<String, Arc<T>>>);

impl<T> Default for Inputs<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T> fmt::Debug for Inputs<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.borrow().keys()).finish()
    }
}

impl<T> Inputs<T> {
    /// Returns the input with this description, which `make` makes if no case before had it.
    ///
    /// # Errors
    /// As `make`.
    pub fn get(&self, description: String, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        if let Some(input) = self.0.borrow().get(&description) {
            return Ok(input.clone());
        }
        let input = Arc::new(make()?);
        self.0.borrow_mut().insert(description, input.clone());
        Ok(input)
    }
}
