//! Recurrent networks over whole sequences, and their derivatives.
//!
//! A network is one operation, however many steps it takes. What an input contributes to the sums of all steps is one
//! matrix product outside, whose result, with the biases, the operation takes; what the hidden state contributes is a
//! product in each step. The derivative gives the cotangents of these sums, from which the weights' follow by products
//! over all steps at once.

pub mod gru;
pub mod gru_backward;
pub mod lstm;
pub mod lstm_backward;
mod steps;

pub use steps::RecurrentSizes;

operations! {
    gru::{Gru},
    gru_backward::{GruBackward},
    lstm::{Lstm},
    lstm_backward::{LstmBackward},
}
