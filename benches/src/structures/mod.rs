//! The structures that can be measured. A new one is a file here and a line in [`all`].
