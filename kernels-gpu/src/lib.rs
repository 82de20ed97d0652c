//! All device code of Phalanx: layouts, operations, views and entry points
