//! The library behind the program `triangle-count`, which reads the edges of a graph in batches and keeps the
//! number of its triangles current.
//!
//! | module | contents |
//! |---|---|
//! | [`cli`] | the command line |
//! | [`edges`] | edges from edge lists, Matrix Market files and generators |
//! | [`stream`] | the graph, and the number of triangles after each batch |
//! | [`report`] | tables, the drawing of the number over time |
pub mod cli;
pub mod edges;
pub mod report;
pub mod stream;
