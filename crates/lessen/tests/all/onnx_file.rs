//! Tiny ONNX files, field by field of the schema.

use std::path::Path;

pub const F32: u64 = 1;
pub const I64: u64 = 7;

/// An extent of an input.
pub enum Extent {
    Size(u64),
    Named(&'static str),
}

/// A model under construction: the fields of its graph.
#[derive(Default)]
pub struct Graph(Vec<u8>);

impl Graph {
    pub fn input(mut self, name: &str, element: u64, shape: &[Extent]) -> Graph {
        self.0.extend(field(11, &value(name, element, shape)));
        self
    }

    pub fn output(mut self, name: &str, element: u64) -> Graph {
        self.0.extend(field(12, &value(name, element, &[])));
        self
    }

    pub fn floats(mut self, name: &str, shape: &[u64], data: &[f32]) -> Graph {
        let dims = shape.iter().map(|size| number(1, *size));
        let raw: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        let parts = [
            dims.collect::<Vec<_>>().concat(),
            number(2, F32),
            text(8, name),
            field(9, &raw),
        ];
        self.0.extend(field(5, &parts.concat()));
        self
    }

    /// An initializer whose elements are in a file of their own.
    pub fn floats_in(mut self, file: &Path, name: &str, shape: &[u64], data: &[f32]) -> Graph {
        let raw: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        std::fs::write(file, raw).unwrap();
        let location = file.file_name().unwrap().to_string_lossy();
        let dims = shape.iter().map(|size| number(1, *size));
        let parts = [
            dims.collect::<Vec<_>>().concat(),
            number(2, F32),
            text(8, name),
            field(13, &[text(1, "location"), text(2, &location)].concat()),
            number(14, 1),
        ];
        self.0.extend(field(5, &parts.concat()));
        self
    }

    /// A node with one output, which is called as the node.
    pub fn node(self, operator: &str, name: &str, inputs: &[&str]) -> Graph {
        self.node_with(operator, name, inputs, &[])
    }

    /// A node with attributes that are lists of integers, or of one integer alone.
    pub fn node_with(mut self, operator: &str, name: &str, inputs: &[&str], attributes: &[(&str, &[u64])]) -> Graph {
        let mut node: Vec<u8> = inputs.iter().flat_map(|input| text(1, input)).collect();
        node.extend([text(2, name), text(3, name), text(4, operator)].concat());
        for (name, integers) in attributes {
            let value = match integers {
                [only] => [number(3, *only), number(20, 2)].concat(),
                _ => {
                    let all: Vec<u8> = integers.iter().flat_map(|own| number(8, *own)).collect();
                    [all, number(20, 7)].concat()
                }
            };
            node.extend(field(5, &[text(1, name), value].concat()));
        }
        self.0.extend(field(1, &node));
        self
    }

    /// Writes a model with the operators of version 17.
    pub fn write(self, path: &Path) {
        let model = [number(1, 8), field(7, &self.0), field(8, &number(2, 17))];
        std::fs::write(path, model.concat()).unwrap();
    }
}

fn value(name: &str, element: u64, shape: &[Extent]) -> Vec<u8> {
    let dims = shape.iter().map(|extent| match extent {
        Extent::Size(size) => field(1, &number(1, *size)),
        Extent::Named(name) => field(1, &text(2, name)),
    });
    let shape = field(2, &dims.collect::<Vec<_>>().concat());
    [
        text(1, name),
        field(2, &field(1, &[number(1, element), shape].concat())),
    ]
    .concat()
}

fn text(tag: u64, text: &str) -> Vec<u8> {
    field(tag, text.as_bytes())
}

fn field(tag: u64, content: &[u8]) -> Vec<u8> {
    [&varint(tag << 3 | 2), &varint(content.len() as u64), content].concat()
}

fn number(tag: u64, number: u64) -> Vec<u8> {
    [varint(tag << 3), varint(number)].concat()
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 128 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
