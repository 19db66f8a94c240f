//! Texts as documents, which a language model keeps apart.

lessen_base::words! {
    /// What a document of a text is.
    pub enum Documents {
        /// The whole text is one stream without documents.
        Off = "off",
        /// A file.
        Files = "files",
        /// A line that is not blank.
        Lines = "lines",
        /// Lines without a blank one between them.
        Paragraphs = "paragraphs",
        /// What stands between the end-of-text tokens of the text.
        Marked = "marked",
    }
}

/// Cuts lines into documents.
pub(crate) struct Cutter {
    documents: Documents,
    /// The beginning of a line.
    rest: String,
    /// The lines of a paragraph.
    paragraph: String,
}

impl Cutter {
    /// For [`Documents::Lines`] and [`Documents::Paragraphs`].
    pub(crate) fn new(documents: Documents) -> Cutter {
        Cutter {
            documents,
            rest: String::new(),
            paragraph: String::new(),
        }
    }

    /// Takes the next chunk of a file; returns the documents that end in it.
    pub(crate) fn take(&mut self, chunk: &str) -> Vec<String> {
        self.rest.push_str(chunk);
        let end = self.rest.rfind('\n').map_or(0, |at| at + 1);
        let lines: String = self.rest.drain(..end).collect();
        lines.lines().filter_map(|line| self.line(line)).collect()
    }

    /// Ends the file; returns the documents that end with it.
    pub(crate) fn end(&mut self) -> Vec<String> {
        let last = std::mem::take(&mut self.rest);
        let documents = [self.line(&last), self.line("")];
        documents.into_iter().flatten().collect()
    }

    fn line(&mut self, line: &str) -> Option<String> {
        let is_blank = line.trim().is_empty();
        if self.documents == Documents::Lines {
            return (!is_blank).then(|| line.to_string());
        }
        if is_blank {
            return Some(std::mem::take(&mut self.paragraph)).filter(|paragraph| !paragraph.is_empty());
        }
        if !self.paragraph.is_empty() {
            self.paragraph.push('\n');
        }
        self.paragraph.push_str(line);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_cut_wherever_chunks_end() {
        let text = "\none\r\ntwo\n \n\nthree\nfour";
        for (kind, expected) in [
            (Documents::Lines, &["one", "two", "three", "four"][..]),
            (Documents::Paragraphs, &["one\ntwo", "three\nfour"]),
        ] {
            for size in 1..=text.len() {
                let mut cutter = Cutter::new(kind);
                let chunks = text
                    .as_bytes()
                    .chunks(size)
                    .map(|chunk| std::str::from_utf8(chunk).unwrap());
                let mut found: Vec<String> = chunks.flat_map(|chunk| cutter.take(chunk)).collect();
                found.extend(cutter.end());
                assert_eq!(found, expected, "{kind:?} in chunks of {size}");
                assert_eq!(cutter.end(), [""; 0]);
            }
        }
    }
}
