//! Tests of exported programs: recorded ones with PyTorch's losses and parameters, and refusals.

mod recorded;
mod refusals;
