//! Configurations of models as tables: each field has a line with its type, its default and its rule.

/// Makes the type of a configuration and its [`Default`]; `read`, which reads its fields by their rules; `written`, the
/// fields of `config.json` with their values; and `begin` and `put_settings`, which write what stands before and after
/// the model's own. `with labels` adds the classes of a classifier.
///
/// Rules are the methods of [`Fields`](crate::Fields) of the same name, without `_or`: `size`, `size_or`, `depth`,
/// `depth_or`, `positive`, `dropout`, `switch`, `index`, `extents` and `activation`. An `optional` field is a size or
/// `null`. A `written` field has its default after `read`, and a `given` one is not written either: the model's own
/// code does that.
macro_rules! configuration {
    (
        $(#[$meta:meta])*
        $Config:ident $(with $labels:ident)? {
            $($(#[$field_meta:meta])* $field:ident: $ty:ty = $default:expr, $rule:ident;)+
        }
        $(#[$default_meta:meta])*
        default
    ) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Debug)]
        pub struct $Config {
            $($(#[$field_meta])* pub $field: $ty,)+
            /// Softmax of the cross entropy.
            pub loss: $crate::loss::Loss,
            /// How its layer norms are computed.
            pub norm: $crate::norm_kind::NormKind,
            /// How its layers are quantized; none if they are not.
            pub quantization: Option<$crate::quantization::Quantization>,
            $(
                /// Names of the classes; one class means a regression.
                pub $labels: Vec<String>,
                /// Whether each example can have several of the classes, or none.
                pub multi_label: bool,
            )?
            /// All fields of the `config.json` that this was read from; the typed fields above take precedence.
            pub fields: serde_json::Map<String, serde_json::Value>,
        }

        impl Default for $Config {
            $(#[$default_meta])*
            fn default() -> $Config {
                $Config {
                    $($field: $default,)+
                    loss: $crate::loss::Loss::default(),
                    norm: $crate::norm_kind::NormKind::default(),
                    quantization: None,
                    $(
                        $labels: $crate::labels::numbered_labels(2),
                        multi_label: false,
                    )?
                    fields: serde_json::Map::new(),
                }
            }
        }

        impl $Config {
            /// Reads the fields that have rules.
            fn read(fields: &$crate::config::Fields) -> lessen_base::Result<$Config> {
                let default = $Config::default();
                Ok($Config {
                    $($field: configuration!(@read $rule fields, stringify!($field), default.$field),)+
                    loss: fields.loss()?,
                    norm: $crate::norm_kind::NormKind::of_fields(fields)?,
                    quantization: $crate::quantization::Quantization::of_fields(fields)?,
                    $(
                        $labels: fields.labels()?,
                        multi_label: fields.is_multi_label()?,
                    )?
                    fields: fields.clone().into_map(),
                })
            }

            /// Fields and values, in the order of the table.
            fn written(&self) -> Vec<(&'static str, serde_json::Value)> {
                let all = [$(configuration!(@write $rule stringify!($field), self.$field)),+];
                all.into_iter().flatten().collect()
            }

            /// A `config.json` with class, family and these fields.
            fn begin(
                &self,
                class: &str,
                model_type: &str,
                written: Vec<(&'static str, serde_json::Value)>,
            ) -> serde_json::Map<String, serde_json::Value> {
                let mut map = self.fields.clone();
                $crate::config::put_identity(&mut map, class, model_type);
                map.extend(written.into_iter().map(|(field, value)| (field.to_string(), value)));
                map
            }

            /// Writes the settings that all configurations have.
            fn put_settings(&self, map: &mut serde_json::Map<String, serde_json::Value>) {
                $crate::config::put_loss(map, self.loss);
                self.norm.put(map);
                $crate::quantization::Quantization::put(self.quantization.as_ref(), map);
                $($crate::labels::put_labels(map, &self.$labels, self.multi_label);)?
            }
        }
    };
    (@read size $fields:ident, $name:expr, $default:expr) => { $fields.size($name)? };
    (@read size_or $fields:ident, $name:expr, $default:expr) => { $fields.size_or($name, $default)? };
    (@read depth $fields:ident, $name:expr, $default:expr) => { $fields.depth($name)? };
    (@read depth_or $fields:ident, $name:expr, $default:expr) => { $fields.depth_or($name, $default)? };
    (@read optional $fields:ident, $name:expr, $default:expr) => { $fields.optional_size($name)? };
    (@read positive $fields:ident, $name:expr, $default:expr) => { $fields.positive_or($name, $default)? };
    (@read dropout $fields:ident, $name:expr, $default:expr) => { $fields.dropout_or($name, $default)? };
    (@read switch $fields:ident, $name:expr, $default:expr) => { $fields.switch_or($name, $default)? };
    (@read index $fields:ident, $name:expr, $default:expr) => { $fields.index_or($name, $default)? };
    (@read extents $fields:ident, $name:expr, $default:expr) => { $fields.extents_or($name, $default)? };
    (@read activation $fields:ident, $name:expr, $default:expr) => { $fields.activation_or($name, $default)? };
    (@read written $fields:ident, $name:expr, $default:expr) => { $default };
    (@read given $fields:ident, $name:expr, $default:expr) => { $default };
    (@write activation $name:expr, $value:expr) => { None };
    (@write given $name:expr, $value:expr) => { None };
    (@write extents $name:expr, $value:expr) => { Some(($name, $crate::config::extents_json($value))) };
    (@write $rule:ident $name:expr, $value:expr) => { Some(($name, serde_json::json!($value))) };
}

pub(crate) use configuration;
