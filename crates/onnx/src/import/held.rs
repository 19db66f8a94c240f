//! Arrays in memory that a session has while it traces a program.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lessen_graph::{Tensor, TraceRef, Type};

use crate::element::Element;
use crate::host::HostTensor;

/// An array that is an input of the program, or whose elements decide what is traced.
#[derive(Debug)]
pub struct Held {
    /// The value's name.
    pub name: String,
    pub tensor: Arc<HostTensor>,
    /// Whether its elements are not to decide what is traced, since they are others in the next run.
    is_sealed: bool,
    /// Whether its elements were asked for: then the program is right for these elements alone.
    is_read: AtomicBool,
}

/// The arrays that a program has as inputs so far, by name.
pub type HeldInputs = BTreeMap<String, Tensor>;

impl Held {
    pub fn new(name: &str, tensor: Arc<HostTensor>, is_sealed: bool) -> Held {
        Held {
            name: name.to_string(),
            tensor,
            is_sealed,
            is_read: AtomicBool::new(false),
        }
    }

    /// The type that it has in a graph; none for texts.
    pub fn ty(&self) -> Option<Type> {
        let element: Element = self.tensor.element().filter(|element| element.is_traced())?;
        Some(Type::new(element.dtype(), self.tensor.shape()))
    }

    /// Its integers; from now on the program depends on them. None for floats and texts, and where it is sealed.
    pub fn integers(&self) -> Option<Vec<i64>> {
        self.elements()?.integers()
    }

    /// The array itself; from now on the program depends on its elements. None where it is sealed.
    pub fn elements(&self) -> Option<Arc<HostTensor>> {
        if self.is_sealed {
            return None;
        }
        self.is_read.store(true, Ordering::Relaxed);
        Some(self.tensor.clone())
    }

    /// The same array, whose elements have not been asked for.
    pub fn unread(&self) -> Held {
        Held::new(&self.name, self.tensor.clone(), self.is_sealed)
    }

    /// Whether its elements were asked for.
    pub fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Relaxed)
    }

    /// The input of the program that stands for it.
    pub fn input(&self, trace: TraceRef, inputs: &mut HeldInputs) -> Option<Tensor> {
        if let Some(tensor) = inputs.get(&self.name) {
            return Some(*tensor);
        }
        let ty = self.ty()?;
        let tensor = trace.input(&self.name, ty.dtype, &ty.shape);
        inputs.insert(self.name.clone(), tensor);
        Some(tensor)
    }
}
