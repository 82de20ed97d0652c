//! Nothing: the package has tests only.
