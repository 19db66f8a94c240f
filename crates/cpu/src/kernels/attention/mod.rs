//! Scaled dot-product attention (Vaswani et al. 2017), its relatives and their derivatives.
mod backward;
mod backward_entry;
mod bound;
mod copies;
mod dropout;
mod fire;
mod fire_parts;
mod fire_rows;
mod forward;
mod forward_entry;
mod head;
mod heads;
mod lanes;
mod moments;
mod moments_backward;
mod moments_phases;
mod norm_backward;
mod norm_forward;
mod one_query;
mod parts;
mod product;
mod relu_backward;
mod relu_forward;
mod row_moments;
mod scores;
mod sequences;
mod sparse;
mod statistics;
mod tile;
mod tile_counts;
mod weights;

pub use tile_counts::TileCounts;

pub(super) use backward_entry::attention_backward_kernel;
pub(super) use forward_entry::attention_kernel;
