//! The messages of the ONNX schema that are read and written as a whole, with the fields that matter here. What else a
//! message of a file holds stays in the file's bytes.

/// A value with a name, or a part of an attribute.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AttributeProto {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// In a function: the attribute of the call that is meant.
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
    /// The one of the following fields that counts.
    #[prost(enumeration = "AttributeType", tag = "20")]
    pub r#type: i32,
    /// A float.
    #[prost(float, tag = "2")]
    pub f: f32,
    /// An integer.
    #[prost(int64, tag = "3")]
    pub i: i64,
    /// A text.
    #[prost(bytes = "vec", tag = "4")]
    pub s: Vec<u8>,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    /// A graph: a branch or the body of a loop.
    #[prost(message, optional, tag = "6")]
    pub g: Option<GraphProto>,
    /// Floats.
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    /// Integers.
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    /// Texts.
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
    /// Graphs.
    #[prost(message, repeated, tag = "11")]
    pub graphs: Vec<GraphProto>,
    /// A tensor that says only the elements that are not nought.
    #[prost(message, optional, tag = "22")]
    pub sparse_tensor: Option<SparseTensorProto>,
}

/// The field of an attribute that counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum AttributeType {
    /// Not said.
    Undefined = 0,
    /// `f`
    Float = 1,
    /// `i`
    Int = 2,
    /// `s`
    String = 3,
    /// `t`
    Tensor = 4,
    /// `g`
    Graph = 5,
    /// `floats`
    Floats = 6,
    /// `ints`
    Ints = 7,
    /// `strings`
    Strings = 8,
    /// Tensors.
    Tensors = 9,
    /// `graphs`
    Graphs = 10,
    /// `sparse_tensor`
    SparseTensor = 11,
}

/// An operator applied to values, which names stand for.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeProto {
    /// Names of inputs; an empty one is absent.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of outputs; an empty one is not wanted.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// Name of the node.
    #[prost(string, tag = "3")]
    pub name: String,
    /// The operator.
    #[prost(string, tag = "4")]
    pub op_type: String,
    /// Attributes.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// The domain of the operator; empty for the domain of ONNX itself.
    #[prost(string, tag = "7")]
    pub domain: String,
    /// Which of several functions of this name and domain is called.
    #[prost(string, tag = "8")]
    pub overload: String,
}

/// A tensor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorProto {
    /// Extents.
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    /// Element type, a number of the schema.
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// Elements of floats.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// Elements of small integers, truth values and 16-bit floats.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Elements of texts.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub string_data: Vec<Vec<u8>>,
    /// Elements of integers.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// Name.
    #[prost(string, tag = "8")]
    pub name: String,
    /// Elements in little-endian order.
    #[prost(bytes = "vec", tag = "9")]
    pub raw_data: Vec<u8>,
    /// Elements of doubles.
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// Elements of unsigned integers of 32 and 64 bits.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// Where elements in another file are.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 1 where elements are in another file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// A tensor that says only the elements that are not nought.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SparseTensorProto {
    /// These elements.
    #[prost(message, optional, tag = "1")]
    pub values: Option<TensorProto>,
    /// Their places, or their indices in rows.
    #[prost(message, optional, tag = "2")]
    pub indices: Option<TensorProto>,
    /// Extents.
    #[prost(int64, repeated, tag = "3")]
    pub dims: Vec<i64>,
}

/// A graph inside an attribute; no other one is read as a whole.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GraphProto {
    /// Nodes.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// Tensors that it begins with.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// Inputs.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// Outputs.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// Tensors that it begins with and that are sparse.
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<SparseTensorProto>,
}

/// A function: nodes that stand for a node which calls it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FunctionProto {
    /// The operator of the nodes that call it.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Names of inputs.
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    /// Names of outputs.
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// Nodes.
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    /// The sets of operators of its nodes, and their versions.
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// The domain of the nodes that call it.
    #[prost(string, tag = "10")]
    pub domain: String,
    /// Attributes that a call may leave out, with their values then.
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<AttributeProto>,
    /// Which of several functions of this name and domain it is.
    #[prost(string, tag = "13")]
    pub overload: String,
}

/// The name and type of a value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueInfoProto {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Type.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// A type; at most one field is there.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TypeProto {
    /// The type of a tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
    /// The type of a sequence.
    #[prost(message, optional, tag = "4")]
    pub sequence_type: Option<ElementTypeProto>,
    /// The type of an optional value.
    #[prost(message, optional, tag = "9")]
    pub optional_type: Option<ElementTypeProto>,
}

/// The type of what a sequence or an optional value holds.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ElementTypeProto {
    /// The type.
    #[prost(message, optional, boxed, tag = "1")]
    pub elem_type: Option<Box<TypeProto>>,
}

/// A sequence in a file of its own.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SequenceProto {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What it holds: 1 for tensors, 3 for sequences, 5 for optional values.
    #[prost(int32, tag = "2")]
    pub elem_type: i32,
    /// Tensors.
    #[prost(message, repeated, tag = "3")]
    pub tensor_values: Vec<TensorProto>,
    /// Sequences.
    #[prost(message, repeated, tag = "5")]
    pub sequence_values: Vec<SequenceProto>,
}

/// An optional value in a file of its own.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OptionalProto {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What it holds: 0 for nothing, 1 for a tensor, 3 for a sequence.
    #[prost(int32, tag = "2")]
    pub elem_type: i32,
    /// The tensor.
    #[prost(message, optional, tag = "3")]
    pub tensor_value: Option<TensorProto>,
    /// The sequence.
    #[prost(message, optional, tag = "5")]
    pub sequence_value: Option<SequenceProto>,
}

/// The type of a tensor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorTypeProto {
    /// Element type, a number of the schema.
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    /// Extents; none where not even their number is known.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// Extents.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorShapeProto {
    /// One for each axis.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// An extent: a number or a name; neither where it is not known.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DimensionProto {
    /// The number or the name.
    #[prost(oneof = "Dimension", tags = "1, 2")]
    pub value: Option<Dimension>,
}

/// A number or a name.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Dimension {
    /// A number.
    #[prost(int64, tag = "1")]
    Value(i64),
    /// A name, which stands for the same number everywhere.
    #[prost(string, tag = "2")]
    Param(String),
}

/// A version of a set of operators.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OperatorSetIdProto {
    /// The domain; empty for the domain of ONNX itself.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// The version.
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// A key and its value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StringStringEntryProto {
    /// The key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub value: String,
}
