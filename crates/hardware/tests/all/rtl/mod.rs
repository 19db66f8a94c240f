//! Units of attention functions as hardware: their models, their text, and simulations of it.

mod formats;
mod mistakes;
mod models;
mod simulation;
