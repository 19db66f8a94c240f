//! Which PyTorch modules can be trained? Exported programs, traced into a context.
#![forbid(unsafe_code)]
