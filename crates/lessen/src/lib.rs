//! Lessen.
