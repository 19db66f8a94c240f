//! Single nodes, computed in memory.

mod elementwise;
mod images;
mod products;
