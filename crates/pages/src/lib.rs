//! Pages: one HTML file that needs nothing else, and what it is made of.
//!
//! - [`plot`] draws curves; [`figure`] makes figures that a page can show and hide, [`html`] the document.
//! - [`run`] reads the folder of a run; [`curves`], [`memory`], [`pictures`], [`statistics`] and [`tables`] are the
//!   sections of its page.
//!
//! ```
//! use lessen_pages::html;
//!
//! let rows = vec![("accuracy".to_string(), vec![html::number(0.5)])];
//! let table = html::table("Scores", "score", &["test".to_string()], &rows);
//! let page = html::document("run", "A run", &[], &html::section("scores", "Scores", &table));
//! assert!(page.contains("accuracy") && page.contains("0.5"));
//! ```
#![forbid(unsafe_code)]

pub mod curves;
pub mod figure;
pub mod html;
pub mod memory;
pub mod pictures;
pub mod plot;
pub mod run;
pub mod statistics;
pub mod tables;
