//! Grids of images with the classes that were predicted of them.

use super::run::Run;
use crate::plot::escaped;
use lessen_task::folder::pictures::{Picture, Pictures};

/// The grids of the runs that have images.
pub fn grids(runs: &[Run]) -> String {
    let own = runs.iter().filter_map(|run| Some((run, run.pictures.as_ref()?)));
    own.map(|(run, pictures)| grid(&run.name, pictures)).collect()
}

/// A grid: each image with the predicted class, its probability, and, if it is another one, the right class.
fn grid(name: &str, Pictures { step, pictures }: &Pictures) -> String {
    let caption = format!("{name}, after step {step}");
    let right = |picture: &&Picture| picture.label.as_deref() == Some(&picture.prediction);
    let cell = |picture: &Picture| {
        let told = format!("{} {:.0} %", picture.prediction, 100.0 * picture.probability);
        let (class, told) = match &picture.label {
            None => ("", told),
            Some(_) if right(&picture) => (" class=\"right\"", told),
            Some(label) => (" class=\"wrong\"", format!("{told}, but {label}")),
        };
        let told = escaped(&told);
        format!(
            "<li{class}><img src=\"data:image/png;base64,{}\" alt=\"\" loading=\"lazy\">{told}</li>\n",
            picture.png
        )
    };
    let count = pictures.iter().filter(right).count();
    let cells: String = pictures.iter().map(cell).collect();
    let summary = if pictures.iter().any(|picture| picture.label.is_some()) {
        format!("{caption}: {count} of {} are right", pictures.len())
    } else {
        caption
    };
    format!(
        "<figure><figcaption>{0}</figcaption>\n<ul class=\"pictures\" aria-label=\"{0}\">\n{cells}</ul></figure>\n",
        escaped(&summary)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_data::images::Image;

    fn pictures() -> Pictures {
        let image = Image::new([1, 2, 3], vec![0, 1, 2, 3, 4, 5]);
        Pictures {
            step: 7,
            pictures: vec![
                Picture::new(&image, Some("a<b"), "a<b", 0.875),
                Picture::new(&image, Some("cat"), "dog", 0.5),
                Picture::new(&image, None, "dog", 1.0),
            ],
        }
    }

    #[test]
    fn right_and_wrong_predictions_are_told_apart() {
        let shown = grid("<run>", &pictures());
        for expected in [
            "<figcaption>&lt;run&gt;, after step 7: 1 of 3 are right</figcaption>",
            "<li class=\"right\"><img src=\"data:image/png;base64,iVBORw0KGgo",
            ">a&lt;b 88 %</li>",
            ">dog 50 %, but cat</li>",
            "<li><img",
            ">dog 100 %</li>",
        ] {
            assert!(shown.contains(expected), "{expected} in {shown}");
        }
        assert_eq!(shown.matches("<li").count(), 3);
    }
}
